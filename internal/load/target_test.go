package load_test

import (
	"errors"
	"net/http"
	"testing"

	"aicr/internal/load"
)

func TestATargetThatCannotBeSaysWhichOptionItIs(t *testing.T) {
	const well = "http://localhost:8000"
	for name, c := range map[string]struct {
		options load.TargetOptions
		fault   load.TargetFault
	}{
		"a scheme that names a proxy":  {load.TargetOptions{URL: "proxy://localhost"}, load.FaultURL},
		"a port that is none":          {load.TargetOptions{URL: "http://password:x"}, load.FaultURL},
		"no host":                      {load.TargetOptions{URL: "http://"}, load.FaultURL},
		"a password":                   {load.TargetOptions{URL: "http://me:hunter2@localhost"}, load.FaultSecret},
		"a password in what is no URL": {load.TargetOptions{URL: "http://me:hunter2@localhost:x"}, load.FaultSecret},
		"a proxy":                      {load.TargetOptions{URL: well, Proxy: "socks5://localhost"}, load.FaultProxy},
		"a header":                     {load.TargetOptions{URL: well, Header: http.Header{"A": {"b\nc"}}}, load.FaultHeader},
		"a key":                        {load.TargetOptions{URL: well, APIKey: "a\nb"}, load.FaultHeader},
	} {
		_, err := load.NewTarget(c.options)
		if wrong, ok := errors.AsType[*load.TargetError](err); !ok || wrong.Fault != c.fault {
			t.Errorf("%s: %v", name, err)
		}
	}
}
