package spec

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// expression is what a constraint wants: one of several alternatives, in each of which
// every term holds.
type expression [][]term

// term is a comparator, or none, and what a fact is compared with.
type term struct {
	comparator string
	text       string
	number     *measure
	version    *ReleaseVersion
}

func (t term) orders() bool {
	switch t.comparator {
	case ">=", "<=", ">", "<":
		return true
	}
	return false
}

// expressionMistake is what is wrong with a wanted value, and what was meant.
type expressionMistake struct{ text, hint string }

func (m *expressionMistake) Error() string { return m.text }

func mistaken(hint, format string, args ...any) *expressionMistake {
	return &expressionMistake{fmt.Sprintf(format, args...), hint}
}

// parseExpression reads a wanted value: terms side by side must all hold, and || parts
// alternatives. What is empty is an error: it would hold for everything.
func parseExpression(value, unit string) (expression, *expressionMistake) {
	if strings.TrimSpace(value) == "" {
		return nil, mistaken(`write what is wanted, as ">= 1.34"`, "no value")
	}
	if unit != "" && !slices.Contains(UnitNames(), unit) {
		return nil, mistaken(meant(unit, UnitNames(), "one of"), "%s is no unit", quote(unit))
	}
	var all expression
	for clause := range strings.SplitSeq(value, "||") {
		if clause = strings.TrimSpace(clause); clause == "" {
			return nil, mistaken("write something on both sides of ||, or leave it out", "%s has an empty alternative", quote(value))
		}
		var terms []term
		for _, text := range splitTerms(clause) {
			one, wrong := parseTerm(text, unit)
			if wrong != nil {
				return nil, wrong
			}
			terms = append(terms, one)
		}
		if len(terms) > 1 && slices.ContainsFunc(terms, func(t term) bool { return t.comparator == "" }) {
			return nil, mistaken("a bare value stands alone: put a comparator before it, as ==", "%s has a bare value among others", quote(clause))
		}
		all = append(all, terms)
	}
	return all, nil
}

const comparatorSigns = "<>=!~^"

// splitTerms parts what stands side by side: a sign after a space begins a new term.
func splitTerms(clause string) []string {
	var all []string
	start := 0
	for i := 1; i < len(clause); i++ {
		if strings.IndexByte(comparatorSigns, clause[i]) >= 0 && (clause[i-1] == ' ' || clause[i-1] == '\t') {
			if text := strings.TrimSpace(clause[start:i]); text != "" {
				all = append(all, text)
			}
			start = i
		}
	}
	return append(all, strings.TrimSpace(clause[start:]))
}

func parseTerm(text, unit string) (term, *expressionMistake) {
	if sign, near := foreignComparator(text); sign != "" {
		return term{}, mistaken(meantComparator(near), "%s is no comparator", quote(sign))
	}
	end := 0
	for end < len(text) && strings.IndexByte(comparatorSigns, text[end]) >= 0 {
		end++
	}
	t := term{comparator: text[:end], text: strings.TrimSpace(text[end:])}
	if t.comparator != "" && !slices.Contains(comparators(), t.comparator) {
		return t, mistaken(meantComparator(t.comparator), "%s is no comparator", quote(t.comparator))
	}
	if t.text == "" {
		return t, mistaken(`write what it is compared with, as ">= 1.34"`, "nothing comes after %s", t.comparator)
	}
	m, word, isNumber := readMeasure(t.text)
	if isNumber {
		t.number = &m
	}
	v, noVersion := ParseReleaseVersion(t.text)
	if noVersion == nil {
		t.version = &v
	}
	switch {
	case isNumber && m.unit != "" && unit != "" && m.unit != unit:
		return t, mistaken("write the unit once", "the value is in %s, and the unit is %s", m.unit, unit)
	case isNumber && unit != "":
		t.number.unit = unit
	case unit != "":
		return t, mistaken("write a number, or leave the unit out", "%s is no number, and the unit is %s", quote(t.text), unit)
	case !t.orders() || isNumber || t.version != nil:
	case word != "":
		return t, mistaken(meant(word, UnitNames(), "one of"), "%s is no unit", quote(word))
	case strings.ContainsAny(t.text, comparatorSigns):
		return t, mistaken("put a space before each comparator", "%s is no version and no number", quote(t.text))
	default:
		return t, mistaken("compare text with ==, with !=, or write it bare; "+t.comparator+" takes a version or a number", "%s is no version and no number", quote(t.text))
	}
	return t, nil
}

// foreignComparator finds a comparator with a sign that only looks like one, and gives
// it in plain signs too. Without it, a bare text would be wanted.
func foreignComparator(text string) (written, plain string) {
	foreign := map[rune]string{'≥': ">=", '⩾': ">=", '≧': ">=", '≤': "<=", '⩽': "<=", '≦': "<=", '≠': "!=", '＞': ">", '＜': "<", '＝': "=", '！': "!", '～': "~"}
	isSign := func(r rune) bool { return foreign[r] != "" || strings.ContainsRune(comparatorSigns, r) }
	at := strings.IndexFunc(text, func(r rune) bool { return foreign[r] != "" })
	if at < 0 {
		return "", ""
	}
	at = len(strings.TrimRightFunc(text[:at], isSign))
	written = text[at : len(text)-len(strings.TrimLeftFunc(text[at:], isSign))]
	for _, r := range written {
		plain += cmp.Or(foreign[r], string(r))
	}
	return written, plain
}

func meantComparator(written string) string {
	if slices.Contains(comparators(), written) {
		return fmt.Sprintf("did you mean %s?", written)
	}
	slips := map[string]string{"=": "==", "=>": ">=", "=<": "<=", "===": "==", "!": "!=", "!==": "!=", "<>": "!=", "><": "!=", "=!": "!=", ">==": ">=", "<==": "<=", ">>": ">", "<<": "<", "~>": ">=", "^": ">=", "~": ">="}
	if near, ok := slips[written]; ok {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return "one of " + listed(comparators())
}

// holds holds a fact against every alternative. A term that cannot be held is an
// error, though another alternative may hold.
func (e expression) holds(kind factKind, fact Scalar) (bool, error) {
	if err := kind.readable(fact); err != nil {
		return false, err
	}
	met := false
	for _, terms := range e {
		all := true
		for _, t := range terms {
			ok, err := t.holds(kind, fact)
			if err != nil {
				return false, err
			}
			all = all && ok
		}
		met = met || all
	}
	return met, nil
}

// readable says whether a fact's value is one of its kind. One that is not cannot be
// told from what is wanted, and so is neither it nor something else.
func (k factKind) readable(fact Scalar) error {
	text := strings.TrimSpace(fact.String())
	switch k {
	case plainFact:
	case boolFact:
		if text != "true" && text != "false" {
			return fmt.Errorf("it is %s, which is neither true nor false", quote(text))
		}
	case versionFact: // by its text: 1.10 is no 1.1, though it be written without quotes
		if _, err := ParseReleaseVersion(text); err != nil {
			return fmt.Errorf("it is %s, which is no version", quote(text))
		}
	case numberFact:
		if _, isNumber := fact.Float(); isNumber {
			return nil
		}
		switch m, _, isNumber := readMeasure(text); {
		case !isNumber:
			return fmt.Errorf("it is %s, which is no number", quote(text))
		case m.unit != "":
			return fmt.Errorf("it is %s, and it has no unit", quote(text))
		}
	}
	return nil
}

// holds compares as numbers what is known to be one. Of the rest a number may well be a
// version without quotes, and two that can be versions are compared as such.
func (t term) holds(kind factKind, fact Scalar) (bool, error) {
	if t.number != nil && t.number.unit != "" {
		there, err := inUnit(fact, t.number.unit)
		if err != nil {
			return false, err
		}
		return decided(t.comparator, cmp.Compare(there, t.number.value)), nil
	}
	text := strings.TrimSpace(fact.String())
	version, noVersion := ParseReleaseVersion(text)
	areVersions := kind != numberFact && noVersion == nil && t.version != nil
	if t.comparator == "" {
		if areVersions && (kind == versionFact || version.Compare(*t.version) != 0) {
			return text == t.text, nil
		}
		return text == t.text || fact.canonical() == t.text, nil
	}
	if _, isBool := fact.Bool(); isBool {
		switch {
		case t.orders():
			return false, fmt.Errorf("it is %s, which %s cannot be held against", text, t.comparator)
		case t.text != "true" && t.text != "false":
			return false, fmt.Errorf("it is %s, and %s is neither true nor false", text, quote(t.text))
		}
		return decided(t.comparator, cmp.Compare(text, t.text)), nil
	}
	if areVersions {
		if t.orders() {
			return decided(t.comparator, version.compareAsFarAs(*t.version)), nil
		}
		return decided(t.comparator, version.Compare(*t.version)), nil
	}
	if there, isNumber := fact.Float(); isNumber && t.number != nil {
		return decided(t.comparator, cmp.Compare(there, t.number.value)), nil
	}
	there, _, isMeasure := readMeasure(text)
	if isMeasure && t.number != nil {
		if there.unit != "" {
			return false, fmt.Errorf("it is %s, and the constraint has no unit", quote(text))
		}
		return decided(t.comparator, cmp.Compare(there.value, t.number.value)), nil
	}
	_, isText := fact.Text()
	switch {
	case !isText:
		return false, fmt.Errorf("it is the number %s, and %s is none", text, quote(t.text))
	case t.orders() && t.number != nil && t.version == nil:
		return false, fmt.Errorf("it is %s, which is no number", quote(text))
	case t.orders():
		return false, fmt.Errorf("it is %s, which is no version", quote(text))
	}
	return decided(t.comparator, cmp.Compare(text, t.text)), nil
}

// inUnit is a fact's number in a unit. A fact that says no unit is in the one that is
// asked for.
func inUnit(fact Scalar, unit string) (float64, error) {
	if v, isNumber := fact.Float(); isNumber {
		return v, nil
	}
	text := strings.TrimSpace(fact.String())
	there, _, ok := readMeasure(text)
	if !ok {
		return 0, fmt.Errorf("it is %s, which is no number of %s", quote(text), unit)
	}
	if there.unit == "" {
		return there.value, nil
	}
	v, ok := there.in(unit)
	if !ok {
		return 0, fmt.Errorf("it is %s, which is not in %s", quote(text), unit)
	}
	return v, nil
}

func decided(comparator string, order int) bool {
	switch comparator {
	case ">=":
		return order >= 0
	case "<=":
		return order <= 0
	case ">":
		return order > 0
	case "<":
		return order < 0
	case "!=":
		return order != 0
	}
	return order == 0
}
