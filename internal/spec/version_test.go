package spec

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// compareVersions compares two texts. The error says which of them is no version.
func compareVersions(a, b string) (int, error) {
	v, err := ParseReleaseVersion(a)
	if err != nil {
		return 0, err
	}
	w, err := ParseReleaseVersion(b)
	if err != nil {
		return 0, err
	}
	return v.Compare(w), nil
}

func TestTheMinorOfAVersion(t *testing.T) {
	for version, want := range map[string]string{
		"1.4.1": "1.4", "v1.4.1": "1.4", "1.4": "1.4", "1.04.1": "1.4", "1.4.1-cuda13": "1.4", "1.2.0rc1": "1.2", "0.8.0.post1": "0.8",
		"v1.34.3-gke.1318000": "1.34", "1": "", "": "", "latest": "", "main.branch": "", "sha-1.4": "", "1.x": "",
	} {
		if got := MinorOf(version); got != want {
			t.Errorf("%q: %q, want %q", version, got, want)
		}
	}
}

func TestATagIsAReleaseToDynamoAsItReadsIt(t *testing.T) {
	for tag, want := range map[string]string{
		"1.2.3": "1.2.3", "v1.2.3": "1.2.3", "V1.2.3": "1.2.3", "1.2.3-cuda13": "1.2.3", "1.2.3-rc.1": "1.2.3", "1.2.3+build": "1.2.3", "0.0.0": "0.0.0",
		"": "", "v": "", "latest": "", "1": "", "1.2": "", "1.2-cuda13": "", "1.2.3.4": "", "1.2.3.post1": "", "1.2.3rc1": "", "1.2.3-": "", "01.2.3": "", "1.2.3-01": "", "vv1.2.3": "", "vV1.2.3": "",
	} {
		if got := TagRelease(tag); got != want {
			t.Errorf("%s: %q, want %q", tag, got, want)
		}
	}
}

func TestVersionsCompareAsClustersWriteThem(t *testing.T) {
	for _, c := range []struct {
		a    string
		want string
		b    string
	}{
		{"1.34.1", "=", "1.34.1"},
		{"v1.34.1", "=", "1.34.1"},
		{"1.34", "=", "1.34.0"},
		{"1", "=", "1.0.0"},
		{"1.34.1", "<", "1.34.2"},
		{"1.34.10", ">", "1.34.9"},
		{"1.9", "<", "1.10"},
		{"2", ">", "1.99.99"},
		{"24.04", "=", "24.4"},
		{"24.04", "<", "24.10"},
		{"22.04", "<", "24.04"},
		{"580.95.05", "=", "580.95.5"},
		{"580.95.05", ">", "580.82.07"},
		{"1.2.3.4", ">", "1.2.3.3"},
		{"1.2.3", "<", "1.2.3.1"},
		{"1.2.3.4-rc.1", ">", "1.2.3.3"},

		// What a vendor puts after a version is no pre-release.
		{"v1.34.1-eks-113cf36", "=", "1.34.1"},
		{"v1.34.1-eks-113cf36", "=", "v1.34.1-eks-99999aa"},
		{"v1.33.9-eks-113cf36", "<", "1.34.0"},
		{"6.8.0-1021-aws", "=", "6.8.0"},
		{"6.8.0-1021-aws", ">", "6.7.9"},
		{"6.12.46+", "=", "6.12.46"},
		{"5.14.0-427.13.1.el9_4.x86_64", "=", "5.14.0"},
		{"6.1.148-173.267.amzn2023.x86_64", ">", "6.1.100"},
		{"6.6.87.2-microsoft-standard-WSL2", ">", "6.6.87.1"},
		{"v1.33.4+k3s1", "=", "1.33.4"},
		{"v1.32.5+rke2r1", "=", "v1.32.5+rke2r2"},
		{"1.4.1-cuda13", "=", "1.4.1"},
		{"4.4.1-4.6.0-ubuntu22.04", "=", "4.4.1"},
		{"0.9.0.post1", "=", "0.9.0"},

		// The builds of GKE are counted.
		{"v1.34.3-gke.1318000", "=", "1.34.3-gke.1318000"},
		{"v1.34.3-gke.1318001", ">", "1.34.3-gke.1318000"},
		{"v1.34.3-gke.999", "<", "1.34.3-gke.1318000"},
		{"v1.34.4-gke.1", ">", "1.34.3-gke.1318000"},
		{"v1.34.3-gke.1318000", "=", "1.34.3"},
		{"v1.34.3", "<", "1.34.3-gke.1318000"},
		{"v1.34.3-eks-abc", "<", "1.34.3-gke.1318000"},

		// What comes before a release.
		{"1.35.0-rc.1", "<", "1.35.0"},
		{"1.35.0-rc.1", ">", "1.34.9"},
		{"1.35.0-rc.1", "<", "1.35.0-rc.2"},
		{"1.35.0-rc.9", "<", "1.35.0-rc.10"},
		{"1.35.0-rc9", "<", "1.35.0-rc10"},
		{"1.35.0-rc1", "=", "1.35.0-rc.1"},
		{"1.35.0-rc-01", "=", "1.35.0-rc.1"},
		{"1.35.0-alpha.3", "<", "1.35.0-beta.1"},
		{"1.35.0-beta.1", "<", "1.35.0-rc.0"},
		{"v0.1.0-alpha.6", "<", "0.1.0"},
		{"v0.1.0-ALPHA.6", "=", "0.1.0-alpha.6"},
		{"1.35.0-rc.1-eks-abc", "=", "1.35.0-rc.1"},
		{"1.35.0-rc.1+build", "=", "1.35.0-rc.1"},
		{"1.0.0rc1", "<", "1.0.0"},
		{"1.0.0a2", "<", "1.0.0b1"},
		{"1.0.0.dev20250901", "<", "1.0.0"},
		{"1.1.0-dev.3", "<", "1.1.0"},
		{"1.1.0-nightly", "<", "1.1.0"},
		{"v1beta1", "<", "v1"},
		{"v1alpha1", "<", "v1beta1"},
		{"v1beta2", ">", "v1beta1"},
		{"v2alpha1", ">", "v1"},
	} {
		t.Run(c.a+" "+c.want+" "+c.b, func(t *testing.T) {
			signs := []string{"<", "=", ">"}
			got, err := compareVersions(c.a, c.b)
			if err != nil {
				t.Fatal(err)
			}
			if signs[got+1] != c.want {
				t.Errorf("%s %s %s", c.a, signs[got+1], c.b)
			}
			// A build that is asked for is more than none; one that is there is no less.
			if strings.Contains(c.a, "-gke.") != strings.Contains(c.b, "-gke.") {
				return
			}
			if back, err := compareVersions(c.b, c.a); err != nil || back != -got {
				t.Errorf("the other way round it is %s: %v", signs[back+1], err)
			}
		})
	}
}

func TestWhatIsNoVersionIsAnError(t *testing.T) {
	for _, text := range []string{
		"", " ", "v", "latest", "a.b.c", ".1", "1.", "1..2", "-1", "1.-2", "1.2.3.4.5", "1.2 LTS", "Ubuntu 24.04", "1.2.3 ", " 1.2.3",
		"1.x", "1.34.x", "1,5", "1.2.3_4", "vv1", "V1.2", "99999999999999999999.1", "1.2.3-gke.", "1.2.3-gke.abc", "1.2.3-gke.-1",
		"1.2.3-eks/1", "1.2.3-ü", "1.2.3-\n", "0x10", "1e3", ">= 1.2", "1.2<2.0", "1.2.3@sha256:00", "60m",
		"1.32-", "v1.32.1-", "1.32-eks-", "1.32-eks.", "1.32-rc-", "1.32-rc.1-", "1_000", "0x7fff",
	} {
		if v, err := ParseReleaseVersion(text); err == nil {
			t.Errorf("%q is read as %+v", text, v)
		}
	}
}

func TestAnOrderOfVersionsIsOne(t *testing.T) {
	ordered := []string{"0.9.0", "1.0.0-alpha.1", "1.0.0-beta", "1.0.0-rc.1", "1.0.0", "1.0.1", "1.34", "1.34.1-eks-1", "1.34.1.5", "1.35", "24.04"}
	mixed := slices.Clone(ordered)
	r := rand.New(rand.NewPCG(1, 2))
	r.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
	slices.SortFunc(mixed, func(a, b string) int {
		c, err := compareVersions(a, b)
		if err != nil {
			t.Fatal(err)
		}
		return c
	})
	if !slices.Equal(mixed, ordered) {
		t.Errorf("sorted: %v", mixed)
	}
}
