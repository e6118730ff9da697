package report

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"aicr/internal/spec"

	"pgregory.net/rapid"
)

func junitOf(r *spec.Report) ([]byte, error) {
	var b bytes.Buffer
	err := JUnit(&b, r)
	return b.Bytes(), err
}

// junitNode is an element as it stands in the file.
type junitNode struct {
	name     string
	attrs    map[string]string
	children []*junitNode
	text     strings.Builder
}

// junitRead reads XML strictly, and knows nothing of what wrote it.
func junitRead(text []byte) (*junitNode, error) {
	d := xml.NewDecoder(bytes.NewReader(text))
	d.Strict = true
	root := &junitNode{}
	open := []*junitNode{root}
	for {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			if len(root.children) != 1 || len(open) != 1 {
				return nil, errors.New("not one root")
			}
			return root.children[0], nil
		}
		if err != nil {
			return nil, err
		}
		top := open[len(open)-1]
		switch x := token.(type) {
		case xml.StartElement:
			n := &junitNode{name: x.Name.Local, attrs: map[string]string{}}
			for _, a := range x.Attr {
				if _, twice := n.attrs[a.Name.Local]; twice {
					return nil, fmt.Errorf("%s has two %s", n.name, a.Name.Local)
				}
				n.attrs[a.Name.Local] = a.Value
			}
			top.children = append(top.children, n)
			open = append(open, n)
		case xml.EndElement:
			open = open[:len(open)-1]
		case xml.CharData:
			top.text.Write(x)
		}
	}
}

// What an attribute may be. A token has no more than one space in a row where it is
// read; none is empty here.
var (
	junitToken   = regexp.MustCompile(`\S`)
	junitAny     = regexp.MustCompile(``)
	junitInt     = regexp.MustCompile(`^[0-9]{1,9}$`)
	junitSeconds = regexp.MustCompile(`^[0-9]+\.[0-9]{3}$`)
	junitMoment  = regexp.MustCompile(`^[1-9][0-9]{3}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}$`)
)

// junitRules is what both junit-10.xsd and JUnit.xsd allow, and what of it is used:
// every attribute named is there, and no other. The schemas themselves are held by
// test/browser, which has a validator.
var junitRules = map[string]struct {
	attrs    map[string]*regexp.Regexp
	children *regexp.Regexp // in their order, each followed by a comma
	text     bool
}{
	"testsuites": {children: regexp.MustCompile(`^testsuite,$`)},
	"testsuite": {
		attrs: map[string]*regexp.Regexp{
			"name": junitToken, "package": junitToken, "id": junitInt, "timestamp": junitMoment, "hostname": junitToken,
			"tests": junitInt, "failures": junitInt, "errors": junitInt, "skipped": junitInt, "time": junitSeconds,
		},
		children: regexp.MustCompile(`^properties,(testcase,)+system-out,system-err,$`),
	},
	"properties": {children: regexp.MustCompile(`^(property,)*$`)},
	"property":   {attrs: map[string]*regexp.Regexp{"name": junitToken, "value": junitAny}},
	"testcase": {
		attrs:    map[string]*regexp.Regexp{"name": junitToken, "classname": junitToken, "time": junitSeconds},
		children: regexp.MustCompile(`^((skipped|error|failure),)?$`),
	},
	"skipped":    {attrs: map[string]*regexp.Regexp{"message": junitToken, "type": junitAny}, text: true},
	"error":      {attrs: map[string]*regexp.Regexp{"message": junitToken, "type": junitAny}, text: true},
	"failure":    {attrs: map[string]*regexp.Regexp{"message": junitToken, "type": junitAny}, text: true},
	"system-out": {text: true},
	"system-err": {text: true},
}

func (n *junitNode) faults() error {
	rule, ok := junitRules[n.name]
	if !ok {
		return fmt.Errorf("there is no %s", n.name)
	}
	for name, may := range rule.attrs {
		if value, ok := n.attrs[name]; !ok || !may.MatchString(value) {
			return fmt.Errorf("%s has %s=%q", n.name, name, value)
		}
	}
	if len(n.attrs) != len(rule.attrs) {
		return fmt.Errorf("%s has attributes that it may not have: %v", n.name, n.attrs)
	}
	var names strings.Builder
	for _, c := range n.children {
		names.WriteString(c.name + ",")
		if err := c.faults(); err != nil {
			return err
		}
	}
	if rule.children == nil && len(n.children) > 0 || rule.children != nil && !rule.children.MatchString(names.String()) {
		return fmt.Errorf("%s has within it %s", n.name, &names)
	}
	if !rule.text && strings.TrimSpace(n.text.String()) != "" {
		return fmt.Errorf("%s has text: %q", n.name, &n.text)
	}
	return nil
}

// junitFaults says what is wrong with a JUnit document that there should be of a report.
func junitFaults(text []byte, r *spec.Report) error {
	root, err := junitRead(text)
	if err != nil {
		return err
	}
	if err := root.faults(); err != nil {
		return err
	}
	suite := root.children[0]
	counts, names := map[string]int{}, map[string]bool{}
	whole := "passed"
	for _, c := range suite.children {
		if c.name != "testcase" {
			continue
		}
		counts["tests"]++
		key := c.attrs["classname"] + "/" + c.attrs["name"]
		if names[key] {
			return fmt.Errorf("%s is there twice", key)
		}
		names[key] = true
		for _, why := range c.children {
			counts[why.name]++
			if !strings.HasPrefix(why.text.String(), why.attrs["message"]) {
				return fmt.Errorf("the text of %s does not begin with its message", c.attrs["name"])
			}
			if counts["tests"] == 1 {
				whole = why.name
			}
		}
	}
	for attr, want := range map[string]int{
		"tests":    1 + len(r.Verdict.Ledgers) + len(r.Verdict.Expectations),
		"failures": counts["failure"], "errors": counts["error"], "skipped": counts["skipped"],
	} {
		if got := suite.attrs[attr]; got != strconv.Itoa(want) {
			return fmt.Errorf("%s is %s, but there are %d", attr, got, want)
		}
	}
	if counts["tests"] != 1+len(r.Verdict.Ledgers)+len(r.Verdict.Expectations) {
		return fmt.Errorf("there are %d cases", counts["tests"])
	}
	if (whole == "passed") != (r.Verdict.Verdict == spec.Pass) {
		return fmt.Errorf("%s is told as %s", r.Verdict.Verdict, whole)
	}
	return nil
}

func TestJUnitOfEveryVerdict(t *testing.T) {
	for name, r := range checkedReports() {
		t.Run(name, func(t *testing.T) {
			text, err := junitOf(r)
			if err != nil {
				t.Fatal(err)
			}
			if err := junitFaults(text, r); err != nil {
				t.Error(err)
			}
			golden(t, "junit/"+name+".xml", text)
		})
	}
}

func TestAnyReportIsJUnitThatIsRead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := anyCheckedReport().Draw(t, "report")
		text, err := junitOf(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := junitFaults(text, r); err != nil {
			t.Fatalf("%v in\n%s", err, text)
		}
	})
}

func TestWhatJUnitMakesOfAState(t *testing.T) {
	for state, want := range map[spec.State]string{
		spec.Pass: "", spec.Fail: "failure", spec.Inconclusive: "error", spec.Invalid: "error",
		spec.Skip: "skipped", spec.NotJudged: "error", "": "error", "pass": "error",
	} {
		text, err := junitOf(checkedNothing(state, "because"))
		if err != nil {
			t.Fatal(err)
		}
		root, err := junitRead(text)
		if err != nil {
			t.Fatal(err)
		}
		cases := root.children[0].children
		whole := cases[slices.IndexFunc(cases, func(n *junitNode) bool { return n.name == "testcase" })]
		got, message := "", ""
		if len(whole.children) > 0 {
			got, message = whole.children[0].name, whole.children[0].attrs["message"]
		}
		if got != want || want != "" && message != string(state)+": because" {
			t.Errorf("%q is told as %q (%s), want %q", state, got, message, want)
		}
	}
}
