package load_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"aicr/internal/load"
)

// Where the instances of a health page are, as far as it says so and each has an address
// of its own. The page is somebody else's: what is no address is none.
func TestAHealthPageTellsWhereItsInstancesAre(t *testing.T) {
	instance := func(id, endpoint, tcp string) string {
		return `{"component":"backend","endpoint":"` + endpoint + `","namespace":"dynamo","instance_id":` + id + `,"transport":{"tcp":"` + tcp + `"}}`
	}
	a := instance("13508364658517883845", "generate", "127.0.0.1:36177/bb775a/generate")
	b := instance("15440633145584257461", "generate", "[fd00::7]:34063/d64826/generate")
	for name, c := range map[string]struct {
		body string
		want map[uint64]string
	}{
		"two":                {a + "," + b, map[uint64]string{13508364658517883845: "127.0.0.1:36177", 15440633145584257461: "[fd00::7]:34063"}},
		"another endpoint":   {a + "," + instance("7", "worker_kv_query_source_9", "127.0.0.1:1/x"), map[uint64]string{13508364658517883845: "127.0.0.1:36177"}},
		"one address, two":   {a + "," + instance("7", "generate", "127.0.0.1:36177/x") + "," + instance("8", "generate", "127.0.0.1:36177/x"), map[uint64]string{}},
		"one of them twice":  {a + "," + a, map[uint64]string{13508364658517883845: "127.0.0.1:36177"}},
		"no address":         {instance("7", "generate", ""), map[uint64]string{}},
		"a hostile one":      {instance("7", "generate", `\u001b[31m:1`), map[uint64]string{}},
		"a name":             {instance("7", "generate", "worker.example:1/x"), map[uint64]string{}},
		"an id that is none": {instance("-7", "generate", "127.0.0.1:1/x"), map[uint64]string{}},
		"nothing":            {"", map[uint64]string{}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(c.want, load.AddressesOf(load.InstancesOf([]byte(`{"instances":[`+c.body+`]}`)))); diff != "" {
				t.Error(diff)
			}
		})
	}
	for _, page := range []string{"", "healthy", `{"instances":"two"}`, `[{}]`} {
		if all := load.InstancesOf([]byte(page)); all != nil {
			t.Errorf("%q: %+v", page, all)
		}
	}
}
