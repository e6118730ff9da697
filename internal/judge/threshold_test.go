package judge

import (
	"testing"

	"aicr/internal/spec"
)

// The thresholds that docs/symptoms.md states, each from both sides.
func TestThresholdsAreWhatTheGuideSays(t *testing.T) {
	cold := func(seconds int) hand {
		return hand{workers: 1, cold: true, seconds: seconds, worker: func(s, w int) at { return at{running: 2, inFlight: 2} }}
	}
	errors := func(bad, good float64) hand {
		return hand{workers: 1, seconds: 30, worker: func(s, w int) at { return busy(8) }, frontend: func(s int) *front {
			return &front{inFlight: 8, tokens: 400, served: good, failed: bad, outcomes: map[string]float64{"success": good, "internal": bad}}
		}}
	}
	pressure := func(v float64) hand {
		return hand{workers: 1, seconds: 30, worker: func(s, w int) at { return busy(8) }, node: func(s int) *spec.NodeSample {
			return &spec.NodeSample{CPUPressure: &v}
		}}
	}
	fleet := func(share float64) hand {
		return hand{workers: 3, seconds: 43, worker: func(s, w int) at {
			v := busy(8)
			if s > 40 {
				v.tokens *= share
			}
			return v
		}}
	}
	left := func(running float64) hand { // tokens stop when so many of 8 are left
		return hand{workers: 3, seconds: 43, worker: func(s, w int) at {
			if s > 40 {
				return at{running: running, inFlight: running}
			}
			return busy(8)
		}}
	}
	empty := func(served float64) hand {
		return hand{seconds: 30, cold: true, frontend: func(s int) *front { return &front{served: served} }}
	}
	hole := func(failed, peers float64) hand {
		return hand{workers: 3, seconds: 30, worker: func(s, w int) at {
			v := busy(8) // each ends 2 a second
			if v.failed = peers; w == 2 {
				v.ended, v.failed = failed, failed
			}
			return v
		}}
	}
	idle := func(peers float64) hand {
		return hand{workers: 3, seconds: 40, worker: func(s, w int) at {
			if w == 2 && s > 20 {
				return at{}
			}
			return busy(peers)
		}}
	}
	prefill := func(seconds int, power float64) hand {
		return hand{workers: 2, seconds: seconds, worker: onlyOne(1, 20, at{running: 2, inFlight: 2}), gpu: func(s, g int) *spec.GPUSample {
			if s > 20 && g == 1 {
				return gpuAt(power, 0.95)
			}
			return gpuAt(560, 0.95)
		}}
	}
	always := func(share float64) hand { // who never had a share
		return hand{workers: 3, seconds: 6, worker: func(s, w int) at {
			v := busy(8)
			if w == 2 {
				v.tokens *= share
			}
			return v
		}}
	}
	hoarder := func(running float64) hand {
		return hand{workers: 3, seconds: 20, worker: func(s, w int) at {
			if w == 2 {
				return at{tokens: 300, running: running, inFlight: running}
			}
			return busy(8)
		}}
	}
	loaded := func(tokens float64) hand {
		return hand{workers: 3, seconds: 20, worker: func(s, w int) at {
			if w == 2 {
				return at{tokens: tokens, running: 40, inFlight: 40}
			}
			return busy(8)
		}}
	}
	admits := func(seconds int, running float64) hand {
		return hand{workers: 1, seconds: seconds, worker: onlyOne(0, 20, at{tokens: 20, running: running, waiting: 5, inFlight: 9, kv: 0.5})}
	}
	beside := func(power, use float64) hand {
		return hand{workers: 4, seconds: 25, worker: onlyOne(3, 20, at{running: 8, inFlight: 8}), gpu: func(s, g int) *spec.GPUSample {
			if s > 20 && g == 3 {
				return gpuAt(power, use)
			}
			return gpuAt(500, 0.95)
		}}
	}
	stalled := []string{"fail worker/stall 3"}
	testRule(t, map[string]ruleCase{
		"cold, 4 s":                     {cold(5), nil, nil},
		"cold, 5 s":                     {cold(6), []string{"note start/cold 0"}, nil},
		"cold, 299 s":                   {cold(300), []string{"note start/cold 0"}, nil},
		"cold, 300 s":                   {cold(301), []string{"fail start/timeout 0"}, nil},
		"0.9 % of requests":             {errors(0.9, 99.1), nil, nil},
		"1.5 % of requests":             {errors(1.5, 98.5), []string{"fail serving/errors"}, nil},
		"4 failed in 10 s":              {errors(0.4, 1), []string{"fail serving/errors"}, nil},
		"pressure 0.2":                  {pressure(0.2), nil, nil},
		"pressure 0.25":                 {pressure(0.25), []string{"note fleet/slow-host"}, nil},
		"the fleet at 20 %":             {fleet(0.2), []string{"fail fleet/stall"}, nil},
		"the fleet at 30 %":             {fleet(0.3), nil, nil},
		"half of the requests are left": {left(4), []string{"fail fleet/stall"}, nil},
		"a quarter of them":             {left(2), nil, nil},
		"3 empty answers in 10 s":       {empty(0.3), []string{"fail serving/no-tokens"}, nil},
		"2 empty answers in 10 s":       {empty(0.2), nil, nil},
		"3 failed in 5 s":               {hole(0.8, 0), []string{"fail worker/black-hole 2"}, nil},
		"peers fail a fifth":            {hole(4, 0.4), []string{"fail worker/black-hole 2"}, nil},
		"peers fail a third":            {hole(4, 0.7), nil, nil},
		"peers run 2":                   {idle(2), []string{"note worker/absent 2"}, nil},
		"peers run 1.9":                 {idle(1.9), nil, nil},
		"29 s of prefill":               {prefill(49, 560), nil, nil},
		"30 s of prefill":               {prefill(50, 560), []string{"fail worker/stall 1"}, nil},
		"prefill at 62 % of the power":  {prefill(30, 350), nil, nil},
		"prefill at 54 % of the power":  {prefill(30, 300), []string{"fail worker/stall 1"}, nil},
		"always at 1 %":                 {always(0.01), []string{"fail worker/stall 2"}, nil},
		"always at 3 %":                 {always(0.03), nil, nil},
		"hoards, 2.5 times":             {hoarder(20), []string{"fail worker/slow 2"}, []string{"it hoards requests"}},
		"1.1 times the peers' tokens":   {loaded(440), []string{"fail worker/slow 2"}, nil},
		"1.3 times the peers' tokens":   {loaded(520), nil, nil},
		"no prompt for 9 s":             {admits(29, 3), nil, nil},
		"no prompt for 10 s":            {admits(30, 3), []string{"note worker/stall 0"}, nil},
		"5 of 8 run":                    {admits(30, 5), nil, nil},
		"3 requests, 2 s":               {hand{workers: 4, seconds: 22, worker: onlyOne(3, 20, at{running: 3, inFlight: 3})}, stalled, nil},
		"2 requests, 2 s":               {hand{workers: 4, seconds: 22, worker: onlyOne(3, 20, at{running: 2, inFlight: 2})}, nil, nil},
		"36 % of the power: low":        {beside(180, 0.1), stalled, []string{"starved, not broken"}},
		"60 % duty cycle: neither":      {beside(180, 0.6), stalled, []string{"180 W at 60 % use, peers 500 W, no throttle"}},
		"duty cycle 45 %":               {beside(180, 0.45), stalled, []string{"starved"}},
	})
	for name, h := range map[string]hand{"44 % of the power": beside(220, 0.1), "a duty cycle of 60 %": beside(180, 0.6)} {
		if words := atEnd(h).Symptoms[0].Words; words[len(words)-len("no throttle"):] != "no throttle" {
			t.Errorf("%s: %s", name, words)
		}
	}
	if words := atEnd(hoarder(15)).Symptoms[0].Words; words[len(words)-1] != ')' {
		t.Errorf("1.9 times as many is told as hoarding: %s", words)
	}
}
