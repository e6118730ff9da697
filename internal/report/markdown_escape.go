package report

import (
	"html"
	"strings"
	"unicode"

	"aicr/internal/report/layout"
)

// Somebody else's words are set by word: one that Markdown, or the tracker that shows
// it, would do something with (markup, a mention, a reference, a link) is set as code,
// in which neither does anything. Backslashes would not do: trackers look for mentions
// and references in the page after the Markdown is gone.

// prose is a sentence of somebody else's. It may begin a line.
func prose(text string, most int) string {
	words := strings.Fields(layout.Shown(text, most))
	for i, w := range words {
		words[i] = markdownWord(w)
	}
	return unblocked(strings.Join(words, " "))
}

// proseCell is prose in a table. A pipe ends a cell even within code, and there is no way to
// write one there that every tracker reads alike: it is shown as a broken bar.
func proseCell(text string) string { return barless(prose(text, ticketCell)) }

// codeCell is a name in a table.
func codeCell(text string) string { return barless(codeSpan(layout.Shown(text, ticketCell))) }

func barless(text string) string { return strings.ReplaceAll(text, "|", "¦") }

// markdownWord is a word, as code where it is not plain. Marks around it stay outside.
func markdownWord(w string) string {
	core := strings.TrimLeft(w, `("'`)
	head := w[:len(w)-len(core)]
	core = strings.TrimRight(core, `.,;:?!)"'`)
	tail := w[len(head)+len(core):]
	if strings.Trim(core, "<>=") == "" {
		return head + html.EscapeString(core) + tail
	}
	if isPlain(core) {
		return head + core + tail
	}
	return head + codeSpan(core) + tail
}

// isPlain reports whether no tracker makes anything of a word but a word.
func isPlain(w string) bool {
	lower := strings.ToLower(w)
	switch {
	case strings.Contains(lower, "www."), strings.Contains(lower, "gh-"), isHash(lower):
		return false
	case strings.HasPrefix(w, "-") && strings.ContainsFunc(w, unicode.IsLetter), strings.HasPrefix(w, "/"):
		return false // a flag, a path; and a tracker's own commands begin with a slash
	case strings.Contains(strings.TrimSuffix(w, "%"), "%"):
		return false // a milestone
	}
	return !strings.ContainsFunc(w, func(r rune) bool {
		return r < unicode.MaxASCII && !unicode.IsLetter(r) && !unicode.IsDigit(r) && !strings.ContainsRune(`.,;()/'"?+=-%`, r)
	})
}

// isHash reports whether a word looks like a commit.
func isHash(w string) bool {
	return len(w) >= 7 && strings.Trim(w, "0123456789abcdef") == "" && strings.ContainsAny(w, "abcdef") && strings.ContainsAny(w, "0123456789")
}

// unblocked keeps the first word of an item from making a list or a rule of it.
func unblocked(text string) string {
	first, _, _ := strings.Cut(text, " ")
	digits := strings.TrimLeft(first, "0123456789")
	switch {
	case first == "":
	case strings.ContainsRune("-+=", rune(first[0])):
		return `\` + text
	case digits != first && (digits == "." || digits == ")"):
		at := len(first) - 1
		return text[:at] + `\` + text[at:]
	}
	return text
}

// codeSpan is text as code, between more backticks than it has in a row.
func codeSpan(text string) string {
	text = strings.TrimSpace(text)
	if text == "" {
		return ""
	}
	fence := strings.Repeat("`", backticks(text)+1)
	if strings.HasPrefix(text, "`") || strings.HasSuffix(text, "`") {
		text = " " + text + " "
	}
	return fence + text + fence
}

// codeBlock is a command in lines of its own.
func codeBlock(command string) string {
	fence := strings.Repeat("`", max(3, backticks(command)+1))
	return fence + "sh\n" + command + "\n" + fence + "\n"
}

// backticks is how many backticks stand in a row, at most.
func backticks(text string) (most int) {
	n := 0
	for _, r := range text {
		if r != '`' {
			n = 0
			continue
		}
		n++
		most = max(most, n)
	}
	return most
}

// adviceLine is prose in which the commands are code, to be copied whole.
func adviceLine(text string) string {
	var b strings.Builder
	write := func(part string) {
		// Between two codes that touch, the backticks would be counted together.
		if strings.HasPrefix(part, "`") && strings.HasSuffix(b.String(), "`") {
			b.WriteByte(' ')
		}
		b.WriteString(part)
	}
	for _, p := range pieces(layout.Shown(text, ticketSentence)) {
		if p.Code {
			write(codeSpan(p.Text))
			continue
		}
		for i, w := range strings.Split(p.Text, " ") {
			if i > 0 {
				b.WriteByte(' ')
			}
			write(markdownWord(w))
		}
	}
	return unblocked(strings.Join(strings.Fields(b.String()), " "))
}
