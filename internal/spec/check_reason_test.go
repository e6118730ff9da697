package spec

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// Every code of a check's reason may be in a plan, and has words: a record with one that
// may not could be neither kept nor judged.
func TestEveryReasonOfACheckMayBeInAPlan(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "check_reason.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var codes []string
	ast.Inspect(file, func(n ast.Node) bool {
		if c, ok := n.(*ast.ValueSpec); ok && len(c.Values) == 1 && !strings.HasPrefix(c.Names[0].Name, "Target") {
			if text, ok := c.Values[0].(*ast.BasicLit); ok {
				code, _ := strconv.Unquote(text.Value)
				codes = append(codes, code)
			}
		}
		return true
	})
	if len(codes) < 20 {
		t.Fatalf("only %q were found", codes)
	}
	for _, code := range codes {
		if !slices.Contains(checkReasonCodes(), code) {
			t.Errorf("%s may not be in a plan", code)
		}
		if text := Because(code, "a", "b", "c").Text(); text == "" || text == "no reason was recorded" {
			t.Errorf("%s has no words", code)
		}
	}
}
