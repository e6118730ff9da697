package spec_test

import (
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"aicr/internal/spec"

	"github.com/google/go-cmp/cmp"
)

const thresholdsPage = "../../docs/thresholds.md"

// field is the threshold of that name.
func field(t testing.TB, of *spec.Thresholds, name string) reflect.Value {
	t.Helper()
	v := reflect.ValueOf(of).Elem()
	for i := range v.NumField() {
		if tag, _, _ := strings.Cut(v.Type().Field(i).Tag.Get("json"), ","); tag == name {
			return v.Field(i)
		}
	}
	t.Fatalf("no threshold %s", name)
	return reflect.Value{}
}

func value(v reflect.Value) float64 {
	if v.CanInt() {
		return float64(v.Int())
	}
	return v.Float()
}

func setValue(v reflect.Value, to float64) {
	if v.CanInt() {
		v.SetInt(int64(to))
	} else {
		v.SetFloat(to)
	}
}

func TestTheThresholdsOfEveryProfileMakeSense(t *testing.T) {
	for _, profile := range spec.Profiles() {
		thresholds, ok := spec.DefaultThresholds(profile)
		if err := thresholds.Check(); err != nil || !ok {
			t.Errorf("%s: %v", profile, err)
		}
	}
}

// A threshold that is added without a bound would be let through whatever it is.
func TestEveryThresholdIsBoundOnBothSides(t *testing.T) {
	for _, name := range spec.ThresholdNames() {
		for _, absurd := range []float64{-1, 1e9} {
			thresholds, _ := spec.DefaultThresholds(spec.ProfileStandard)
			setValue(field(t, &thresholds, name), absurd)
			var all spec.Mistakes
			if err := thresholds.Check(); !errors.As(err, &all) || !slices.ContainsFunc(all, func(m spec.Mistake) bool {
				return m.Path == name && strings.HasPrefix(m.Text, "want ") && !strings.Contains(m.Text, "which is")
			}) {
				t.Errorf("%s: %v is let through: %v", name, absurd, err)
			}
		}
	}
}

func TestThresholdsThatMakeNoSenseTogetherAreTold(t *testing.T) {
	for change, want := range map[string]string{
		"minEpisodes=12":       "minEpisodes: want at most maxEpisodes, which is 11, got 12",
		"minEpisodes=11":       "",
		"batchS=51":            "batchS: want at most episodeS, which is 50, got 51",
		"minSteadyS=51":        "minSteadyS: want at most episodeS, which is 50, got 51",
		"bootstrapBlockS=51":   "bootstrapBlockS: want at most episodeS, which is 50, got 51",
		"ratioBad=0.92":        "ratioBad: want less than ratioGood, which is 0.92, got 0.92",
		"rateOk=0.75":          "rateOk: want less than rateBad, which is 0.75, got 0.75",
		"ttftPassShare=0.5":    "ttftPassShare: want less than ttftBadShare, which is 0.5, got 0.5",
		"starvedShare=0.95":    "starvedShare: want at most peerShare, which is 0.9, got 0.95",
		"stallShare=0.8":       "stallShare: want less than recoveredRate, which is 0.8, got 0.8",
		"freezeShare=0.8":      "freezeShare: want less than recoveredRate, which is 0.8, got 0.8",
		"heldLow=1,heldHigh=1": "heldLow: want less than heldHigh, which is 1, got 1",
		"coldS=301":            "coldS: want at most answerWithinS, which is 300, got 301",
	} {
		thresholds, _ := spec.DefaultThresholds(spec.ProfileStandard)
		for one := range strings.SplitSeq(change, ",") {
			name, text, _ := strings.Cut(one, "=")
			v, err := strconv.ParseFloat(text, 64)
			if err != nil {
				t.Fatal(err)
			}
			setValue(field(t, &thresholds, name), v)
		}
		got := ""
		if err := thresholds.Check(); err != nil {
			got = strings.TrimPrefix(err.Error(), "line 1: ")
		}
		if got != want {
			t.Errorf("%s: %s, want %s", change, got, want)
		}
	}
}

var (
	pageRow = regexp.MustCompile("(?m)^\\| `([a-zA-Z0-9]+)` \\| ([^|]+?) \\| ([^|]+?) \\| ([^|]+?) \\|$")
	example = regexp.MustCompile("(?s)```yaml\n(.*?)```")
)

// number reads 0.05, and 1/30 too.
func number(t testing.TB, text string) float64 {
	t.Helper()
	over, under, isRatio := strings.Cut(text, "/")
	v, err := strconv.ParseFloat(over, 64)
	if err == nil && isRatio {
		var by float64
		by, err = strconv.ParseFloat(under, 64)
		v /= by
	}
	if err != nil {
		t.Errorf("%q is no number", text)
	}
	return v
}

func TestThePageHasEveryThresholdWithItsDefault(t *testing.T) {
	page := string(mustRead(t, thresholdsPage))
	standard, _ := spec.DefaultThresholds(spec.ProfileStandard)
	var told []string
	for _, row := range pageRow.FindAllStringSubmatch(page, -1) {
		name := row[1]
		told = append(told, name)
		if slices.Contains(spec.ThresholdNames(), name) && number(t, row[2]) != value(field(t, &standard, name)) {
			t.Errorf("%s: the page says %s, the standard profile has %v", name, row[2], value(field(t, &standard, name)))
		}
	}
	if diff := cmp.Diff(spec.ThresholdNames(), told); diff != "" {
		t.Errorf("in their order (-program +page):\n%s", diff)
	}
}

func TestThePageSaysWhatAProfileChanges(t *testing.T) {
	page := string(mustRead(t, thresholdsPage))
	standard, _ := spec.DefaultThresholds(spec.ProfileStandard)
	for _, profile := range spec.Profiles() {
		thresholds, _ := spec.DefaultThresholds(profile)
		var changes []string
		for _, name := range spec.ThresholdNames() {
			if v := value(field(t, &thresholds, name)); v != value(field(t, &standard, name)) {
				changes = append(changes, fmt.Sprintf("`%s` %v", name, v))
			}
		}
		if len(changes) == 0 {
			changes = []string{"nothing"}
		}
		if want := fmt.Sprintf("| `%s` | %s |", profile, strings.Join(changes, ", ")); !strings.Contains(page, want) {
			t.Errorf("the page has no row that begins with %s", want)
		}
	}
}

func TestTheExamplesOfThePageAreRecipes(t *testing.T) {
	blocks := example.FindAllStringSubmatch(string(mustRead(t, thresholdsPage)), -1)
	if len(blocks) == 0 {
		t.Fatal("no example")
	}
	for _, block := range blocks {
		r, err := spec.DecodeRecipe([]byte(block[1]))
		if err != nil {
			t.Fatalf("%v\n%s", err, block[1])
		}
		if len(r.Verdict().Thresholds) == 0 || len(r.Figures(8)) == 0 || r.Verdict().Reference == nil {
			t.Errorf("an example that is not complete: %+v", r)
		}
		for _, profile := range spec.Profiles() {
			thresholds, _ := spec.DefaultThresholds(profile)
			r.Overlay(&thresholds)
			if err := thresholds.Check(); err != nil {
				t.Errorf("with %s: %v", profile, err)
			}
		}
	}
}
