package redact

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"html"
	"io"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"
)

// odd is a secret that looks like none, and is written in another way in every place.
const odd = "mirrorQxZv WkRt\"&/+<pLm"

func TestASecretIsHiddenHoweverItIsWritten(t *testing.T) {
	m := NewMask(odd + "\n")
	inJSON, _ := json.Marshal(map[string]string{"a": odd})
	twice, _ := json.Marshal(string(inJSON))
	for name, written := range map[string]string{
		"as it is": odd, "in a query": url.QueryEscape(odd), "in a path": url.PathEscape(odd), "in small escapes": strings.ToLower(url.QueryEscape(odd)[18:]),
		"in JSON": string(inJSON), "in JSON in JSON": string(twice), "quoted": strconv.Quote(odd), "in HTML": html.EscapeString(odd),
		"base64": base64.StdEncoding.EncodeToString([]byte(odd)), "base64 for URLs": base64.RawURLEncoding.EncodeToString([]byte(odd)),
		"user and password":  base64.StdEncoding.EncodeToString([]byte("u:" + odd)),
		"another user":       base64.StdEncoding.EncodeToString([]byte("us:" + odd)),
		"a user of a domain": base64.StdEncoding.EncodeToString([]byte("use:" + odd + "\n")),
	} {
		got := m.Text("before " + written + " after")
		if name == "in small escapes" { // its own beginning is missing
			continue
		}
		if !strings.Contains(got, Hidden) || strings.Contains(got, "WkRt") || strings.Contains(got, "Y0") && strings.Contains(name, "base64") {
			t.Errorf("%s: %s", name, got)
		}
		if !strings.HasPrefix(got, "before ") || !strings.HasSuffix(got, " after") {
			t.Errorf("%s: more is hidden: %s", name, got)
		}
	}
	if got := m.Text(smallEscapes(url.QueryEscape(odd))); got != Hidden {
		t.Errorf("in small escapes: %s", got)
	}
}

// Programs differ in which characters they escape: a mixture of the ways is found too.
func TestASecretIsHiddenInAMixtureOfForms(t *testing.T) {
	const secret = `Conf1ded"42/x+y&z <é`
	m := NewMask(secret)
	for name, written := range map[string]string{
		"Python's html.escape":        `Conf1ded&quot;42/x+y&amp;z &lt;é`,
		"HTML in HTML":                `Conf1ded&amp;quot;42/x+y&amp;amp;z &amp;lt;é`,
		"Python's quote":              `Conf1ded%2242/x%2By%26z%20%3C%C3%A9`,
		"JavaScript's encodeURI":      `Conf1ded%2242/x+y&z%20%3C%C3%A9`,
		"an address in an address":    `Conf1ded%252242%252fx%252By%2526z%2520%253C%25C3%25A9`,
		"JSON that escapes slashes":   `Conf1ded\"42\/x+y&z <\u00e9`,
		"JSON in JSON, with entities": `Conf1ded\\\"42\\/x+y\u0026z <\\u00E9`,
	} {
		if got := m.Text("a " + written + " b"); got != "a *** b" {
			t.Errorf("%s: %s", name, got)
		}
		for cut := range len(written) {
			if got := m.Text("a " + written[:cut] + "…"); cut > 0 && utf8.ValidString(written[:cut]) && got != "a ***…" {
				t.Errorf("%s, cut: %s", name, got)
			}
		}
	}
	if got := m.Text("Conf1ded and 42 of x"); got != "Conf1ded and 42 of x" {
		t.Error(got)
	}
}

// What was cut where a secret stood has its beginning at the cut.
func TestABeginningAtACutIsHidden(t *testing.T) {
	m := NewMask("sk-live-0123456789")
	for text, want := range map[string]string{
		"refused: sk-live-01…":             "refused: ***…",
		"refused: s…":                      "refused: ***…",
		"refused: sk-live-01… (cut here)":  "refused: ***… (cut here)",
		"refused: other…":                  "refused: other…",
		"a… b sk-live-0123456789 c sk-li…": "a… b *** c ***…",
		"is it? s":                         "is it? s",
	} {
		if got := m.Text(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestNoSecretIsNoMask(t *testing.T) {
	for _, none := range []string{"", "none", " \n", "EMPTY"} {
		if m := NewMask(none); m != nil || m.Text("none EMPTY") != "none EMPTY" || m.File("a.gz", nil) != nil {
			t.Errorf("%q is hidden", none)
		}
	}
}

func TestAStreamIsMaskedHoweverItComes(t *testing.T) {
	const text = "signed in as " + odd + "\nmirrorQxZv is no more than its beginning\n" + odd + odd + "\n"
	const want = "signed in as ***\nmirrorQxZv is no more than its beginning\n******\n"
	m := NewMask(odd)
	for name, from := range map[string]func(io.Reader) io.Reader{
		"at once": func(r io.Reader) io.Reader { return r }, "a byte at a time": iotest.OneByteReader, "halves": iotest.HalfReader,
	} {
		if got, err := io.ReadAll(m.Reader(from(strings.NewReader(text)))); err != nil || string(got) != want {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
	}
	broken := io.MultiReader(strings.NewReader("signed in as mirrorQx"), iotest.ErrReader(errors.New("broken")))
	if got, err := io.ReadAll(m.Reader(broken)); string(got) != "signed in as ***" || err == nil {
		t.Errorf("one that broke: %q, %v", got, err)
	}
}

func TestWhatLooksLikeASecretIsMasked(t *testing.T) {
	for text, want := range map[string]string{
		"Authorization: Bearer sk-abcdef":                                                    "Authorization: Bearer ***",
		`{"authorization": "Basic dXNlcjpwYXNz", "a": 1}`:                                    `{"authorization": "Basic ***", "a": 1}`,
		"GET /v1/models?api_key=SECRET&model=m HTTP/1.1":                                     "GET /v1/models?api_key=***&model=m HTTP/1.1",
		"https://h/x?X-Amz-Signature=abc&sig=d&v=1":                                          "https://h/x?X-Amz-Signature=***&sig=***&v=1",
		"redirect to https%3A%2F%2Fh%3Fapi_key%3DSECRETVALUE ":                               "redirect to https%3A%2F%2Fh%3Fapi_key%3D*** ",
		`{\"api_key\": \"SECRET\"}`:                                                          `{\"api_key\": \"***\"}`,
		"x-api-key: abcdef":                                                                  "x-api-key: ***",
		"Set-Cookie: session=abc; Path=/":                                                    "Set-Cookie: ***",
		"http://user:pass@host/x":                                                            "http://***@host/x",
		"downloading with hf_AbCdEf and AKIAABCDEFGH":                                        "downloading with hf_*** and AKIA***",
		"eyJhbGciOi.eyJzdWIiOi.sig":                                                          "***",
		"Authorization: ApiKey abcdef, x":                                                    "Authorization: ApiKey ***, x",
		"authorization=AWS4-HMAC-SHA256 Credential=AKIA/1, SignedHeaders=host, Signature=ab": "authorization=AWS4-HMAC-SHA256 ***, SignedHeaders=host, Signature=***",
		"Authorization header is missing":                                                    "Authorization header is missing",
		"sent Basic dXNlcjpwYXNz":                                                            "sent Basic ***",
		"basic authentication is wanted":                                                     "basic authentication is wanted",
		"https://h/cb#access_token=abc&sig=d":                                                "https://h/cb#access_token=***&sig=***",
		"time to first token: 120 ms, 5 tokens/s, token count":                               "time to first token: 120 ms, 5 tokens/s, token count",
		"2 output tokens: 5 were asked for":                                                  "2 output tokens: 5 were asked for",
		"give a key with --api-key-file or AICR_API_KEY":                                     "give a key with --api-key-file or AICR_API_KEY",
	} {
		if got := Masked(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
		if again := Masked(Masked(text)); again != Masked(text) {
			t.Errorf("%q, masked again, is %q", text, again)
		}
	}
	long := strings.Repeat("x", 50) + " api_key=SECRETSECRET"
	if got := Excerpt(long, 66); strings.Contains(got, "SEC") || len(got) > 66 {
		t.Errorf("it is cut first: %q", got)
	}
}

func TestAnAddressIsShownWithoutWhatIsSecret(t *testing.T) {
	for address, want := range map[string]string{
		"http://h:8000/v1":                      "http://h:8000/v1",
		"http://h:8000/v1?api_key=SECRET":       "http://h:8000/v1?…",
		"h:8000?api_key=SECRET":                 "h:8000?…",
		"https://user:pa@ss@h/x#SECRET":         "https://***@h/x#…",
		"user:pass@h:8000":                      "***@h:8000",
		"https://h/proxy/sk-abcdef/v1":          "https://h/proxy/sk-***/v1",
		"http://h/%zz?SECRET":                   "http://h/%zz?…",
		"http://u:%zz@h/x":                      "http://***@h/x",
		"https://h/k/0a1b2c3d4e5f6a7b8c9d0e/v1": "https://h/k/***/v1",
		"https://h/meta-llama-3.1-8b-instruct":  "https://h/meta-llama-3.1-8b-instruct",
		"":                                      "",
	} {
		if got := URL(address); got != want {
			t.Errorf("%q becomes %q, want %q", address, got, want)
		}
	}
	m := NewMask(InURL("http://user:passw%40rd@h/v1?api_key=SECRET%2FVALUE&model=llama-3-8b")...)
	for text, want := range map[string]string{
		"api SECRET/VALUE":        "api ***",
		"api SECRET%2FVALUE":      "api ***",
		"passw@rd":                Hidden,
		"the model is llama-3-8b": "the model is llama-3-8b",
	} {
		if got := m.Text(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func TestSecretsOfAnAddress(t *testing.T) {
	for address, secrets := range map[string][]string{
		"h:8000?SECRETVALUE":                       {"SECRETVALUE"},
		"http://h/v1?model=llama-3-8b&SECRET-A":    {"SECRET-A"},
		"http://h/v1?sig=SECRET%2FA;key=SECRET-B":  {"SECRET%2FA", "SECRET/A", "SECRET-B"},
		"http://h/v1#access_token=SECRET-A":        {"SECRET-A"},
		"http://us%zzer:SECRET%2FA@h/v1":           {"SECRET%2FA", "SECRET/A", "us%zzer"},
		"https://h/hook/SECRET0123456789ABCDEF/v1": {"SECRET0123456789ABCDEF"},
	} {
		m := NewMask(InURL(address)...)
		for _, secret := range secrets {
			if got := m.Text("said " + secret + " twice"); got != "said *** twice" {
				t.Errorf("%s: %q is left", address, got)
			}
		}
		if got := m.Text("llama-3-8b at h:8000"); got != "llama-3-8b at h:8000" {
			t.Errorf("%s: %q", address, got)
		}
	}
}

// A secret may look like a number or like the name of a field: a document stays one.
func TestADocumentOfJSONStaysOne(t *testing.T) {
	m := NewMask("100000", "status", "quo\"te\\d")
	const document = `{"status": "status 100000", "n": 1000001, "list": ["quo\"te\\d", "a\\"], "cut": "100…"}` + "\n" + `{"100000":"x"}`
	const want = `{"status": "*** ***", "n": 1000001, "list": ["***", "a\\"], "cut": "***…"}` + "\n" + `{"100000":"x"}`
	if got := string(m.JSON([]byte(document))); got != want {
		t.Errorf("%s\nwant\n%s", got, want)
	}
	for _, size := range []int{1, 7, len(document)} {
		var b strings.Builder
		w := m.JSONWriter(&b)
		for part := range slices.Chunk([]byte(document), size) {
			if _, err := w.Write(part); err != nil {
				t.Fatal(err)
			}
		}
		if err := w.Close(); err != nil || b.String() != want {
			t.Errorf("%d bytes at a time: %v\n%s", size, err, b.String())
		}
	}
	if got := string((*Mask)(nil).JSON([]byte(document))); got != document {
		t.Error(got)
	}
	for text, want := range map[string]string{
		`"a\nvapi-123 \u202e"`: `"a\nvapi-123 \u202e"`, // a line's end, and no secret
		`"a\\nvapi-123"`:       `"a\\***"`,
		`"nvapi-123 \u202e"`:   `"*** \u202e"`,
		`"\u006evapi-123"`:     `"***"`,
	} {
		if got := string(NewMask("nvapi-123").JSON([]byte(text))); got != want {
			t.Errorf("%s becomes %s, want %s", text, got, want)
		}
	}
}

// What is the beginning of something longer may end in the middle of a secret, and say
// nothing of it.
func TestTheBeginningOfATextHidesTheBeginningOfASecret(t *testing.T) {
	m := NewMask("sk-live-0123456789")
	for text, want := range map[string]string{
		"key sk-live-01":        "key ***",
		`header line "sk-live-`: `header line "***`,
		`line "sk-live-01"`:     `line "***"`,
		`{"m":"bad sk-live-"}`:  `{"m":"bad ***"}`,
		"it is sk-":             "it is sk-", // three letters are nothing
		"other words":           "other words",
	} {
		if got := m.Part(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}

func FuzzMask(f *testing.F) {
	f.Add(odd, "before ", " after")
	f.Add("0123456", "\"", "…")
	f.Fuzz(func(t *testing.T, secret, before, after string) {
		if len(secret)+len(before)+len(after) > 2<<10 { // secrets are the user's own; a word of 4 KB takes half a second
			return
		}
		m := NewMask(secret)
		word := strings.TrimSpace(secret)
		if m == nil || strings.Contains(Hidden+before+Hidden+after, word) {
			return
		}
		for _, form := range []string{word, url.QueryEscape(word), strconv.Quote(word), base64.StdEncoding.EncodeToString([]byte(word))} {
			text := before + form + after
			got, err := io.ReadAll(m.Reader(iotest.OneByteReader(strings.NewReader(text))))
			if err != nil {
				t.Fatal(err)
			}
			if document, _ := json.Marshal(map[string]string{before: text, after: secret}); !json.Valid(m.JSON(document)) {
				t.Errorf("%q is left of %s", m.JSON(document), document)
			}
			for _, kept := range []string{m.Text(text), string(got)} {
				if strings.Contains(kept, word) && !strings.Contains(strings.ReplaceAll(text, form, Hidden), word) {
					t.Errorf("%q is left in %q", word, kept)
				}
			}
		}
	})
}
