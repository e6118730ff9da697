package recipes_test

import (
	"strings"
	"testing"

	"aicr/internal/spec"
	"aicr/recipes"
)

// The rules are upstream's, for the images of its checks; here they hold for every image.
func TestImageResolution(t *testing.T) {
	const commit = "0123456789ab"
	digest := "@sha256:" + strings.Repeat("0f", 32)
	release, dev := recipes.Build{Version: "v1.2.3", Commit: commit}, recipes.Build{Version: "v1.2.3-4-g0123456", Commit: commit}
	ours, runtime := "registry.example/nvidia/aicr-validators/performance", "registry.example/nvidia/ai-dynamo/runtime"
	for name, test := range map[string]struct {
		ref    string
		rules  recipes.Rules
		want   string
		policy string
	}{
		"latest is the release on a release build":     {ours + ":latest", recipes.Rules{Build: release, Ours: true}, ours + ":v1.2.3", "IfNotPresent"},
		"a release without its v has one":              {ours + ":latest", recipes.Rules{Build: recipes.Build{Version: "1.2.3"}, Ours: true}, ours + ":v1.2.3", "IfNotPresent"},
		"latest is the commit on a dev build":          {ours + ":latest", recipes.Rules{Build: dev, Ours: true}, ours + ":sha-" + commit, "IfNotPresent"},
		"a dirty build is no release":                  {ours + ":latest", recipes.Rules{Build: recipes.Build{Version: "v1.2.3-dirty", Commit: commit}, Ours: true}, ours + ":sha-" + commit, "IfNotPresent"},
		"latest stays without a commit":                {ours + ":latest", recipes.Rules{Build: recipes.Build{Version: "dev"}, Ours: true}, ours + ":latest", "Always"},
		"what is no commit makes no tag":               {ours + ":latest", recipes.Rules{Build: recipes.Build{Version: "dev", Commit: "unknown"}, Ours: true}, ours + ":latest", "Always"},
		"no tag is latest":                             {ours, recipes.Rules{Build: release, Ours: true}, ours + ":v1.2.3", "IfNotPresent"},
		"an explicit tag is not touched":               {ours + ":v0.1.0", recipes.Rules{Build: release, Ours: true}, ours + ":v0.1.0", "IfNotPresent"},
		"the tag override prevails over latest":        {ours + ":latest", recipes.Rules{Build: release, Overrides: recipes.Overrides{Tag: "branch"}, Ours: true}, ours + ":branch", "Always"},
		"the tag override prevails over a tag":         {ours + ":v0.1.0", recipes.Rules{Build: release, Overrides: recipes.Overrides{Tag: "branch"}, Ours: true}, ours + ":branch", "Always"},
		"the tag override latest stays latest":         {ours + ":latest", recipes.Rules{Build: release, Overrides: recipes.Overrides{Tag: "latest"}, Ours: true}, ours + ":latest", "Always"},
		"the tag override leaves a digest alone":       {ours + digest, recipes.Rules{Build: release, Overrides: recipes.Overrides{Tag: "branch"}, Ours: true}, ours + digest, "IfNotPresent"},
		"a digest beside a tag keeps both":             {ours + ":latest" + digest, recipes.Rules{Build: release, Overrides: recipes.Overrides{Tag: "branch"}, Ours: true}, ours + ":latest" + digest, "IfNotPresent"},
		"the registry replaces host and organisation":  {ours + ":latest", recipes.Rules{Build: release, Overrides: recipes.Overrides{Registry: "localhost:5001"}, Ours: true}, "localhost:5001/aicr-validators/performance:v1.2.3", "IfNotPresent"},
		"the registry may have a path and a slash":     {ours + ":v0.1.0", recipes.Rules{Overrides: recipes.Overrides{Registry: "mirror.example/team/gpu/"}, Ours: true}, "mirror.example/team/gpu/aicr-validators/performance:v0.1.0", "IfNotPresent"},
		"the registry moves a digest too":              {ours + digest, recipes.Rules{Overrides: recipes.Overrides{Registry: "mirror.example"}, Ours: true}, "mirror.example/aicr-validators/performance" + digest, "IfNotPresent"},
		"without an organisation the host is replaced": {"registry.example/tool:v0.1.0", recipes.Rules{Overrides: recipes.Overrides{Registry: "mirror.example"}, Ours: true}, "mirror.example/tool:v0.1.0", "IfNotPresent"},
		"the host may have a port":                     {"registry.example:5000/org/tool:v0.1.0", recipes.Rules{Overrides: recipes.Overrides{Registry: "mirror.example:444"}}, "mirror.example:444/tool:v0.1.0", "IfNotPresent"},
		"docker's short names move":                    {"busybox", recipes.Rules{Overrides: recipes.Overrides{Registry: "mirror.example"}}, "mirror.example/busybox:latest", "Always"},
		"the runtime moves to the mirror":              {runtime + ":1.0.0", recipes.Rules{Build: release, Overrides: recipes.Overrides{Registry: "mirror.example"}}, "mirror.example/ai-dynamo/runtime:1.0.0", "IfNotPresent"},
		"the tag override does not reach the runtime":  {runtime + ":1.0.0", recipes.Rules{Build: release, Overrides: recipes.Overrides{Tag: "branch"}}, runtime + ":1.0.0", "IfNotPresent"},
		"our release does not reach the runtime":       {runtime + ":latest", recipes.Rules{Build: release}, runtime + ":latest", "Always"},
		"side-loaded is never pulled":                  {ours + ":latest", recipes.Rules{Build: release, Overrides: recipes.Overrides{Tag: "branch"}, Ours: true, SideLoaded: true}, ours + ":branch", "Never"},
		"a side-loaded digest is never pulled":         {ours + digest, recipes.Rules{SideLoaded: true}, ours + digest, "Never"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := recipes.Resolve(test.ref, test.rules)
			if err != nil {
				t.Fatal(err)
			}
			if want := (recipes.Image{Ref: test.want, PullPolicy: test.policy}); got != want {
				t.Errorf("got %+v, want %+v", got, want)
			}
		})
	}
}

func TestAnImageThatCannotBeResolvedIsAnError(t *testing.T) {
	const ref = "registry.example/org/tool:v0.1.0"
	for name, test := range map[string]struct {
		ref  string
		o    recipes.Overrides
		want string
	}{
		"no reference":                     {ref: "", want: `"" is no image reference`},
		"upper case":                       {ref: "registry.example/Org/tool", want: "is no image reference"},
		"nothing but a slash":              {ref: "/", want: "is no image reference"},
		"a part without letters":           {ref: "registry.example/org//tool", want: "is no image reference"},
		"half a digest":                    {ref: "registry.example/org/tool@sha256:12", want: "is no image reference"},
		"a tag that cannot be one":         {ref: ref, o: recipes.Overrides{Tag: "my branch"}, want: "AICR_VALIDATOR_IMAGE_TAG=my branch"},
		"a tag that brings a digest":       {ref: ref, o: recipes.Overrides{Tag: "a@b"}, want: "AICR_VALIDATOR_IMAGE_TAG=a@b"},
		"a tag that brings a path":         {ref: ref, o: recipes.Overrides{Tag: "a/b"}, want: "AICR_VALIDATOR_IMAGE_TAG=a/b"},
		"a registry with its scheme":       {ref: ref, o: recipes.Overrides{Registry: "https://mirror.example"}, want: "AICR_VALIDATOR_IMAGE_REGISTRY=https://mirror.example"},
		"an organisation and no registry":  {ref: ref, o: recipes.Overrides{Registry: "mirror/team"}, want: `"mirror" is no registry's host: write host.domain or host:port before it`},
		"a registry that has a tag":        {ref: ref, o: recipes.Overrides{Registry: "mirror.example/team:v1"}, want: "AICR_VALIDATOR_IMAGE_REGISTRY"},
		"a registry that is a single word": {ref: ref, o: recipes.Overrides{Registry: "mirror"}, want: "is no registry's host"},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := recipes.Resolve(test.ref, recipes.Rules{Overrides: test.o, Ours: true})
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("got %+v, %v; want an error with %q", got, err, test.want)
			}
		})
	}
}

func TestAnAirGappedRegistryServesEveryImage(t *testing.T) {
	v, err := recipes.Versions()
	if err != nil {
		t.Fatal(err)
	}
	images, err := recipes.Images(v, recipes.Build{Version: "v1.2.3"}, recipes.Overrides{Registry: "mirror.example:5000/gpu", Tag: "branch"})
	if err != nil {
		t.Fatal(err)
	}
	if len(images) != len(v.Images) {
		t.Fatalf("%d images of %d", len(images), len(v.Images))
	}
	for i, image := range images {
		tag := v.Images[i].Tag
		if v.Images[i].Ours {
			tag = "branch"
		}
		if !strings.HasPrefix(image.Ref, "mirror.example:5000/gpu/") || !strings.HasSuffix(image.Ref, ":"+tag) {
			t.Errorf("%s is %s", image.Name, image.Ref)
		}
	}
}

func TestTwoImagesThatWouldBeOneInTheMirrorAreAnError(t *testing.T) {
	v := &spec.Versions{Images: []spec.PinnedImage{
		{Name: "a", Repository: "one.example/x/tool", Tag: "1.0.0"},
		{Name: "b", Repository: "two.example/y/tool", Tag: "1.0.0"},
	}}
	if _, err := recipes.Images(v, recipes.Build{}, recipes.Overrides{}); err != nil {
		t.Fatal(err)
	}
	_, err := recipes.Images(v, recipes.Build{}, recipes.Overrides{Registry: "mirror.example"})
	if err == nil || err.Error() != "images a and b are both mirror.example/tool:1.0.0" {
		t.Errorf("got %v", err)
	}
}

// The same variable is checked by aicr env and when images are resolved.
func TestAMirrorIsOneToEveryCommand(t *testing.T) {
	for _, registry := range []string{"mirror.example", "mirror.example:5000/gpu", "localhost/x", "localhost:5001", "docker.io/acme", "MIRROR.example/a", "mirror.example/gpu/",
		"mirror", "mirror/gpu", "https://mirror.example", "mirror.example/UPPER", "mirror.example/x:tag", "mirror.example//x", "mirror.example/-x", "a b", "/x"} {
		for _, k := range spec.ReadKnobs(func(name string) (string, bool) { return registry, name == spec.KnobRegistry }, nil) {
			if k.Name != spec.KnobRegistry {
				continue
			}
			if _, err := recipes.Resolve("registry.example/aicr", recipes.Rules{Overrides: recipes.Overrides{Registry: registry}}); (err == nil) != (k.Wrong == "") {
				t.Errorf("%q: aicr env says %q, and the images %v", registry, k.Wrong, err)
			}
		}
	}
}

func FuzzResolve(f *testing.F) {
	f.Add("registry.example/org/tool:v1", "mirror.example:5000/x", "branch", true)
	f.Add("tool@sha256:"+strings.Repeat("0f", 32), "", "", false)
	f.Add("a/b:c@d", "host:", "-", true)
	f.Add("/", ".", "0", true)
	f.Fuzz(func(t *testing.T, ref, registry, tag string, ours bool) {
		rules := recipes.Rules{Overrides: recipes.Overrides{Registry: registry, Tag: tag}, Ours: ours}
		got, err := recipes.Resolve(ref, rules)
		if err != nil {
			return
		}
		// What was resolved is whole: it means itself, wherever nothing is overridden.
		again, err := recipes.Resolve(got.Ref, recipes.Rules{})
		if err != nil || again.Ref != got.Ref {
			t.Errorf("%q became %q, and then %q, %v", ref, got.Ref, again.Ref, err)
		}
		if registry != "" && !strings.HasPrefix(got.Ref, strings.TrimRight(registry, "/")+"/") {
			t.Errorf("%q is not of %q", got.Ref, registry)
		}
	})
}
