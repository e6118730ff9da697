package graph

import (
	"strconv"
	"time"
)

// answerTry is how long one request may take of those that a first answer is waited for
// with, as published.
const answerTry = 120 * time.Second

// noAnswer is how AIPerf's Job ends where nothing has answered, so that AIPerf was not
// begun: a code that AIPerf itself has no use for.
const noAnswer = 69

// startAIPerf waits for a first answer, as this program's own load does before it begins:
// a service that is ready may be cold, or never serve, and AIPerf would measure that. It
// tells of it in lines as that load prints them, and classes a request that was not
// answered as that load does. What it needs is in variables, and no part of the program, so
// that no name can become one.
const startAIPerf = `import http.client, itertools, json, os, pathlib, signal, socket, subprocess, sys, time, urllib.parse

begun, number = time.monotonic(), itertools.count(1)


def say(kind, text, **more):
    line = {"n": next(number), "t": round(time.monotonic() - begun, 3), "kind": kind, "text": " ".join(text.split())[:400], **more}
    print(json.dumps(line), flush=True)


def late(*_):
    raise TimeoutError


def ask(url, within):
    """Sends one request: its tokens, why there are none, and whether that will not change."""
    at = urllib.parse.urlsplit(url)
    to = http.client.HTTPConnection(at.hostname, at.port)
    headers = {"Content-Type": "application/json"}
    if os.environ.get("AICR_HEADER"):
        name, value = os.environ["AICR_HEADER"].split(":", 1)
        headers[name] = value
    body = {"model": os.environ["AICR_MODEL"], "messages": [{"role": "user", "content": "hi"}], "max_tokens": 8}
    try:
        signal.setitimer(signal.ITIMER_REAL, within)  # over all of it: a server may send a byte a minute
        try:
            to.request("POST", "/v1/chat/completions", json.dumps(body), headers)
            got = to.getresponse()
            text = got.read(1 << 20).decode(errors="replace")
        finally:
            signal.setitimer(signal.ITIMER_REAL, 0)
            to.close()
    except TimeoutError:
        return 0, "timeout", "no answer within %.0f s" % within, False
    except (ConnectionRefusedError, socket.gaierror) as e:
        return 0, "connect", str(e), False
    except (OSError, http.client.HTTPException) as e:
        return 0, "reset", "%s: %s" % (type(e).__name__, e), False
    if got.status != 200:
        stays = 400 <= got.status < 500 and got.status not in (404, 408, 409, 425, 429)
        return 0, "http-status", "HTTP %d: %s" % (got.status, text), stays
    try:
        answer = json.loads(text)
        message = answer["choices"][0]["message"]
        words = message.get("content") or message.get("reasoning_content") or message.get("reasoning")
        tokens = (answer.get("usage") or {}).get("completion_tokens")
    except (ValueError, LookupError, TypeError, AttributeError):
        return 0, "bad-stream", "its answer is no chat completion: " + text, True
    if not words:
        return 0, "no-tokens", "a whole answer without a token", False
    return tokens if isinstance(tokens, int) and tokens > 0 else 1, "", "", False


def first(url, within, each):
    """Waits for the first answer, and ends the program where there is none in its time."""
    say("note", "waiting for the first answer of %s, for %.0f s at most" % (url, within))
    until, pause = time.monotonic() + within, 2
    for tries in itertools.count(1):
        asked = time.monotonic()
        tokens, why, text, stays = ask(url, max(1, min(each, until - asked)))
        now = time.monotonic()
        if not why:
            say("answer", "the first answer took %.0f s" % (now - asked), answer={"tokens": tokens, "seconds": now - asked, "tries": tries})
            return
        if stays or until - now < pause:
            say("answer", text, answer={"tokens": 0, "seconds": now - until + within, "tries": tries, "reason": why})
            sys.exit(69)
        say("note", "not serving yet: " + text)
        time.sleep(pause)
        pause = min(15, pause * 1.5)


signal.signal(signal.SIGALRM, late)
first(os.environ["AICR_URL"], float(os.environ["AICR_ANSWER_WITHIN"]), float(os.environ["AICR_ANSWER_TRY"]))
say("stage", "AIPerf loads", stage="episode", number=1)
`

// startEnv are the variables of startAIPerf.
func startEnv(s *Settings) []any {
	inSeconds := func(d time.Duration) string { return strconv.FormatFloat(d.Seconds(), 'f', -1, 64) }
	all := []any{
		env("AICR_URL", ServiceURL(s)), env("AICR_MODEL", s.Model),
		env("AICR_ANSWER_WITHIN", inSeconds(time.Duration(s.AnswerWithin))), env("AICR_ANSWER_TRY", inSeconds(answerTry)),
	}
	if s.Gateway {
		name, value := RouteHeader(s)
		all = append(all, env("AICR_HEADER", name+":"+value))
	}
	return all
}
