package layout

import (
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestNumbersAreGroupedAndNoLongerThanNeeded(t *testing.T) {
	for _, tt := range []struct {
		v    float64
		want string
	}{
		{0, "0"}, {math.Copysign(0, -1), "0"}, {1, "1"}, {0.5, "0.50"}, {0.0123, "0.012"}, {0.00123, "0.0012"}, {9.996, "10.0"}, {12.34, "12.3"}, {99.96, "100"}, {123.4, "123"},
		{999.4, "999"}, {999.6, "1,000"}, {1000, "1,000"}, {1234.5, "1,234"}, {1e6, "1,000,000"}, {-1234, "-1,234"}, {-0.5, "-0.50"},
		{0.0001, "0.0001"}, {0.00001234, "1.2e-05"}, {-1e-9, "-1.0e-09"}, {5e-324, "4.9e-324"}, // a small number is not 0
		{999_999_999_999_999, "999,999,999,999,999"}, {1e15, "1.0e+15"}, {math.MaxFloat64, "1.8e+308"},
		{math.NaN(), "–"}, {math.Inf(1), "∞"}, {math.Inf(-1), "-∞"},
	} {
		if got := Number(tt.v); got != tt.want {
			t.Errorf("%v is %q, want %q", tt.v, got, tt.want)
		}
	}
}

func TestNumbersFitIntoAColumn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		v := rapid.Float64().Draw(t, "v")
		if got := Number(v); Width(got) > 20 || (got == "0") != (v == 0) {
			t.Errorf("%v is %q", v, got)
		}
	})
}

func TestDigitsAreThree(t *testing.T) {
	for v, want := range map[float64]string{0: "0", 0.00004: "0.0000", 0.00123: "0.0012", 0.01: "0.010", 0.1: "0.10", 1: "1.00", 9.994: "9.99", 9.996: "10.0", 99.94: "99.9", 99.96: "100", 1234.4: "1234"} {
		if got := Digits(v); got != want {
			t.Errorf("%v is %q, want %q", v, got, want)
		}
	}
}

func TestDurationsHaveThreeDigitsAndNeverAThousand(t *testing.T) {
	for _, tt := range []struct {
		d    time.Duration
		want string
	}{
		{0, "0"}, {500, "0.50µs"}, {1234, "1.23µs"}, {9_996, "10.0µs"}, {99_960, "100µs"}, {999_499, "999µs"}, {999_500, "1.00ms"},
		{12_345_678, "12.3ms"}, {999_499_999, "999ms"}, {999_960_000, "1.00s"}, {time.Second, "1.00s"}, {12_345 * time.Millisecond, "12.3s"},
		{59_949 * time.Millisecond, "59.9s"}, {59_960 * time.Millisecond, "1m0s"}, {125 * time.Second, "2m5s"}, {2 * time.Hour, "2h0m0s"}, {-1234, "-1.23µs"},
		{math.MinInt64, "-2562047h47m16.854775807s"},
	} {
		if got := Short(tt.d); got != tt.want {
			t.Errorf("%d ns is %q, want %q", tt.d, got, tt.want)
		}
	}
}

func TestLoadedIsATime(t *testing.T) {
	for _, tt := range []struct {
		s    float64
		want string
	}{{0, "0s"}, {0.04, "0s"}, {0.05, "100ms"}, {199.96, "3m20s"}, {3000, "50m0s"}, {1e12, "1,000,000,000,000s"}, {-1e300, "-1.0e+300s"}, {math.NaN(), "an unknown time"}, {math.Inf(-1), "an unknown time"}} {
		if got := Loaded(tt.s); got != tt.want {
			t.Errorf("%v s is %q, want %q", tt.s, got, tt.want)
		}
	}
}

func TestMillisecondsThatWereNotMeasuredAreNone(t *testing.T) {
	n := func(v float64) *float64 { return &v }
	for _, tt := range []struct {
		v    *float64
		want string
	}{{nil, "–"}, {n(math.NaN()), "–"}, {n(math.Inf(1)), "∞"}, {n(0), "0"}, {n(1.5), "1.50ms"}, {n(-0.002), "-2.00µs"}, {n(9e12), "9,000,000,000,000ms"}, {n(-1e300), "-1.0e+300ms"}} {
		if got := Millis(tt.v); got != tt.want {
			t.Errorf("%v is %q, want %q", tt.v, got, tt.want)
		}
	}
}
