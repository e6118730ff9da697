package main

import (
	"bytes"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"

	"github.com/google/go-containerregistry/pkg/name"

	"aicr/internal/spec"
	"aicr/recipes"
)

const moveHint = "write it in " + recipes.VersionsFile + " alone; a fixture belongs below testdata"

// literals finds versions in lines of text. A number with two dots is not one: what
// makes it one is an image, or the name of something that is pinned.
type literals struct {
	pins      []pin
	named     *regexp.Regexp // a name that is pinned, and a version right after it
	tagged    *regexp.Regexp // the last part of a pinned repository, and a tag
	assigned  *regexp.Regexp // a variable called a version, and one that is pinned
	componing *regexp.Regexp // a line of YAML that names a pinned component
}

// pin is a version that is pinned, and the words that it goes by.
type pin struct {
	version string
	words   *regexp.Regexp
	name    string
}

func newLiterals(v *spec.Versions) *literals {
	l := &literals{}
	var words, tails, versions []string
	add := func(name, version string, more ...string) {
		all := slices.DeleteFunc(append([]string{name}, more...), func(w string) bool { return len(w) < 4 }) // "go" is in every line
		if len(all) == 0 {
			return
		}
		words = append(words, all...)
		l.pins = append(l.pins, pin{strings.TrimPrefix(version, "v"), regexp.MustCompile(`(?i)` + anyOf(all)), name})
	}
	for _, c := range v.Charts {
		more := []string{c.Component, strings.TrimSuffix(c.Name, "-platform"), strings.TrimSuffix(c.Name, "-scheduler")}
		add(c.Name, c.Version, more...)
		versions = append(versions, c.Version)
	}
	for _, m := range v.Images {
		tails = append(tails, path.Base(m.Repository))
		if !m.Ours {
			add(m.Name, m.Tag, path.Base(m.Repository))
			versions = append(versions, m.Tag)
		}
	}
	for _, t := range v.Tools {
		tail := path.Base(regexp.MustCompile(`/v[0-9]+$`).ReplaceAllString(t.Name, ""))
		if slices.Contains([]string{"kubernetes", "server"}, tail) { // which others are called too
			tail = t.Name
		}
		add(t.Name, t.Version, tail, strings.TrimPrefix(tail, "ai-"))
	}
	for _, r := range v.Releases {
		add("vLLM", r.VLLM)
	}
	const between = "[\\s:=@\"'`(\\[,*|-]"
	l.named = regexp.MustCompile(`(?i)` + anyOf(words) + `[a-z_-]{0,24}` + between + `{1,8}(?:version|release|tag)?` + between + `{0,4}v?([0-9]+\.[0-9]+\.[0-9]+)`)
	l.tagged = regexp.MustCompile(`(?:^|[^A-Za-z0-9_-])(?:` + alternatives(tails) + `):(latest|v?[0-9]+\.[0-9][A-Za-z0-9_.-]*|sha-[0-9a-f]{7,})`)
	for i, version := range versions {
		versions[i] = strings.TrimPrefix(version, "v")
	}
	l.assigned = regexp.MustCompile(`(?i)\b[a-z_]*(?:version|tag)[a-z_]*\s*(?:string\s*)?[:?]?=\s*["'` + "`" + `]?v?(` + alternatives(versions) + `)\b`)
	l.componing = regexp.MustCompile(`(?i)^\W*(?:name|chart|component|repository|image)["']?\s*:\s*["']?(?:\S*/)?(?:` + alternatives(words) + `)["']?\s*(?:#.*)?$`)
	return l
}

// alternatives is a pattern of any of some texts, the longest first.
func alternatives(texts []string) string {
	texts = slices.Clone(texts)
	slices.SortFunc(texts, func(a, b string) int { return len(b) - len(a) })
	for i, text := range texts {
		texts[i] = regexp.QuoteMeta(text)
	}
	return strings.Join(texts, "|")
}

// anyOf is a pattern of any of some names as people write them: GPU Operator is
// gpu-operator. A name does not begin in the midst of another word, but may after a
// capital's turn in an identifier.
func anyOf(names []string) string {
	return `(?:` + strings.ReplaceAll(alternatives(names), "-", "[-_ ]?") + `)`
}

var (
	// candidate is a line that any of the rules could be about; it is cheap to ask.
	candidate = regexp.MustCompile(`[0-9]\.[0-9]|/.*[:@]|[A-Za-z0-9]:[A-Za-z0-9]`)
	// reference is what looks like an image: a host with a domain, a path, and a tag or
	// a digest.
	reference = regexp.MustCompile(`[A-Za-z0-9][A-Za-z0-9.-]*\.[A-Za-z]{2,}(?::[0-9]+)?(?:/[A-Za-z0-9._-]+)+(?::[A-Za-z0-9_][A-Za-z0-9_.-]*)?(?:@sha256:[0-9a-f]{64})?`)
	// components is a variable that is called a version of something that is deployed.
	components = regexp.MustCompile(`(?i)(?:chart|image|runtime|operator)[_-]?(?:version|tag)["'` + "`" + `]?\s*(?:string\s*)?(?::=|[?:]?=|:)\s*["'` + "`" + `]?v?[0-9]+\.[0-9]+\.[0-9]+`)
	// field is a line of YAML with a version.
	field = regexp.MustCompile(`^\W*(?:version|tag|newTag|targetRevision|defaultVersion|chartVersion)["']?\s*:\s*["']?v?[0-9]+\.[0-9]`)
	// naming is a line of YAML that says what its neighbours are about.
	naming = regexp.MustCompile(`^\W*(?:name|chart|component|repository|image)["']?\s*:`)
	// flag is an option of a command that says which version of something to install.
	flag = regexp.MustCompile("(?:^|[\\s\"'`(\\[])--version(?:=|\\s+|[\"'],\\s*)[\"']?[~^<>=]*v?([0-9]+\\.[0-9]+(?:\\.[0-9]+)?)")
	// wantsImage is what an image comes right after, whatever it is called.
	wantsImage = regexp.MustCompile(`^\s*FROM\s+(?:--platform=\S+\s+)?|(?i:(?:^|[^A-Za-z-])["']?image["']?\s*[:=]\s*["']?)|--image(?:=|\s+)["']?`)
	// pulls is a command, somewhere after which an image comes.
	pulls = regexp.MustCompile(`\b(?:(?:docker|podman|nerdctl)\s+(?:image\s+)?(?:run|pull|push|create|save|tag|inspect)|crane\s+[a-z]+|kind\s+load\s+docker-image|skopeo\s+[a-z]+|ctr\s.*\bpull)\s`)
	// notAnImage is an option of such a command whose value may look like one.
	notAnImage = regexp.MustCompile(`(?:^|\s)(?:-[vpeu]|--(?:volume|publish|env|user|add-host|network|net|link|mount))[=\s]\s*$`)
	// short is an image without a registry: Docker Hub's, at the beginning of a text. A tag
	// that has no number and does not move, as of one that was built here, is none.
	short = regexp.MustCompile("^[a-z][a-z0-9._-]*(?:/[a-z0-9._-]+)*:(?:latest|stable|edge|[A-Za-z0-9_.-]*[0-9][A-Za-z0-9_.-]*)(?:@sha256:[0-9a-f]+)?(?:[\\s\"'`),;}\\]]|$)")
	// sourceFile is where a path with dots is one of this repository, not a host.
	sourceFile = regexp.MustCompile(`\.(?:go|md|ya?ml|json|jsonl|txt|txtar|sh|py|js|html|css)$`)
)

// in finds the literals of a file. There is one finding a line: the first rule says it.
func (l *literals) in(file string, content []byte) []finding {
	if !isText(content) {
		return nil
	}
	var all []finding
	lines := strings.Split(string(content), "\n")
	for i, line := range lines {
		if !candidate.MatchString(line) {
			continue
		}
		if text := l.inLine(line); text != "" {
			all = append(all, finding{file, i + 1, text, moveHint})
		} else if field.MatchString(line) && (l.aboutPinned(lines, i) || isRecipe(file, content)) {
			all = append(all, finding{file, i + 1, fmt.Sprintf("the version of a chart or an image: %s", strings.TrimSpace(line)), moveHint})
		}
	}
	return all
}

func (l *literals) inLine(line string) string {
	for _, at := range reference.FindAllStringIndex(line, -1) {
		if ref := line[at[0]:at[1]]; !isAddress(line[:at[0]]) && isImage(ref) {
			return "the image " + ref
		}
	}
	for _, at := range l.tagged.FindAllStringSubmatchIndex(line, -1) {
		start := 1 + strings.LastIndexAny(line[:at[2]], " \t\"'`(=,")
		host, _, _ := strings.Cut(line[start:], "/")
		if host, _, _ = strings.Cut(host, ":"); !reserved(host) {
			return "the image " + line[start:at[3]]
		}
	}
	if image := shortImage(line); image != "" {
		return "the image " + image
	}
	for _, at := range l.named.FindAllStringSubmatchIndex(line, -1) {
		if isVersion(line, at[3]) && !madeUp(line[at[2]:at[3]]) {
			return fmt.Sprintf("a version of something that is pinned: %s", line[at[0]:at[1]])
		}
	}
	if m := components.FindString(line); m != "" {
		return "a version: " + m
	}
	if m := l.assigned.FindString(line); m != "" {
		return "a version that is pinned: " + m
	}
	for _, p := range l.pins {
		if p.version != "" && containsVersion(line, p.version) && p.words.MatchString(line) {
			return fmt.Sprintf("%s, and the version that it is pinned to: %s", p.name, p.version)
		}
	}
	if m := flag.FindStringSubmatch(line); m != nil && !madeUp(m[1]) {
		return "a version that is installed: " + strings.TrimLeft(m[0], " \t\"'`([")
	}
	return ""
}

// shortImage finds an image that has no registry, where a line can only mean one.
func shortImage(line string) string {
	for _, at := range wantsImage.FindAllStringIndex(line, -1) {
		if image := startsWithImage(line[at[1]:]); image != "" {
			return image
		}
	}
	at := pulls.FindStringIndex(line)
	if at == nil {
		return ""
	}
	for i := at[1]; i < len(line); i++ {
		if !strings.ContainsRune(" \t\"'/", rune(line[i-1])) || line[i-1] == '/' && !strings.HasSuffix(line[:i], "docker://") || notAnImage.MatchString(line[at[1]-1:i]) {
			continue
		}
		if image := startsWithImage(line[i:]); image != "" {
			return image
		}
	}
	return ""
}

func startsWithImage(text string) string {
	image := strings.TrimRight(short.FindString(text), " \t\"'`),;}]")
	if host, _, _ := strings.Cut(image, "/"); reserved(host) {
		return ""
	}
	return image
}

// isAddress reports whether what comes after a text is a part of a path or of a page's
// address.
func isAddress(before string) bool {
	return strings.HasSuffix(before, "/") && !strings.HasSuffix(before, "oci://") && !strings.HasSuffix(before, "docker://")
}

// isImage reports whether a text is a reference to an image that could be pulled.
func isImage(ref string) bool {
	host, rest, _ := strings.Cut(ref, "/")
	host, _, _ = strings.Cut(host, ":")
	if !strings.ContainsAny(rest, ":@") || reserved(host) || sourceFile.MatchString(host) || strings.HasSuffix(host, "github.com") {
		return false
	}
	_, err := name.ParseReference(ref, name.StrictValidation)
	if strings.Contains(ref, "@") {
		_, err = name.NewDigest(ref)
	}
	return err == nil
}

// reserved are the names that nobody's registry can have (RFC 2606).
func reserved(host string) bool {
	return slices.ContainsFunc([]string{".example", ".test", ".invalid", ".localhost", "example.com", "example.org", "example.net"}, func(s string) bool {
		return strings.HasSuffix(host, s)
	})
}

// madeUp are the versions that tests and pages take when they mean none.
func madeUp(version string) bool { return version == "1.2.3" || version == "9.9.9" }

// isVersion reports whether the number that ends there ends there: an address has four.
func isVersion(line string, end int) bool {
	rest := line[end:]
	return rest == "" || rest[0] != '.' || len(rest) < 2 || rest[1] < '0' || rest[1] > '9'
}

// containsVersion finds a version that is not a part of a longer number.
func containsVersion(line, version string) bool {
	for from := 0; ; {
		at := strings.Index(line[from:], version)
		if at < 0 {
			return false
		}
		start, end := from+at, from+at+len(version)
		if (start == 0 || !strings.ContainsRune("0123456789.", rune(line[start-1]))) && isVersion(line, end) && (end == len(line) || line[end] < '0' || line[end] > '9') {
			return true
		}
		from = start + 1
	}
}

// aboutPinned reports whether the lines around a field name something that is pinned:
// the nearest that name anything do.
func (l *literals) aboutPinned(lines []string, i int) bool {
	for _, step := range []int{-1, 1} {
		for j := i + step; j >= 0 && j < len(lines) && j-i <= 4 && i-j <= 8 && strings.TrimSpace(lines[j]) != ""; j += step {
			if l.componing.MatchString(lines[j]) {
				return true
			}
			if naming.MatchString(lines[j]) || step > 0 && strings.HasPrefix(strings.TrimSpace(lines[j]), "- ") {
				break
			}
		}
	}
	return false
}

// isRecipe reports whether a file is an overlay: no component of it has a version there.
func isRecipe(file string, content []byte) bool {
	return strings.HasPrefix(file, "recipes/") && path.Ext(file) == ".yaml" && bytes.Contains(content, []byte("\n  componentRefs:"))
}

func lineOf(content []byte, text string) int {
	at := bytes.Index(content, []byte(text))
	return 1 + bytes.Count(content[:max(at, 0)], []byte("\n"))
}
