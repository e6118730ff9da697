package redact

import (
	"encoding/base64"
	"regexp"
	"slices"
	"strings"
)

// Hidden is what stands in a text for a secret.
const Hidden = "***"

// secrets are what must not be kept, in whatever text it stands: each pattern with what
// is left of it.
var secrets = []struct {
	pattern *regexp.Regexp
	left    string
}{
	{regexp.MustCompile(`(?s)-----BEGIN [A-Z ]*PRIVATE KEY-----.*?(?:-----END [A-Z ]*PRIVATE KEY-----|$)`), Hidden},
	{regexp.MustCompile(`(?i)(authorization["'\\]*\s*[=:]\s*\[?["'\\]*(?:[a-z][a-z0-9-]*\s+)?)[^\s"',;\\]+`), "${1}" + Hidden},
	{regexp.MustCompile(`(?i)(bearer(?:\s|%20|\+)+)[^\s"',;]+`), "${1}" + Hidden},
	{regexp.MustCompile(`(?i)(\b(?:set-)?cookie["']?\s*[=:]\s*["']?)[^\r\n"']+`), "${1}" + Hidden},
	{regexp.MustCompile(`(?i)(\B--?[a-z0-9-]*(?:key|token|password|secret)[ =]+)\S+`), "${1}" + Hidden},
	{regexp.MustCompile(`(?i)([?&#;][\w.~%-]*(?:key|token|secret|passw|pwd|sig|auth|credential|session|jwt|code)[\w.~%-]*=)[^&#\s"'<>\\)\]]+`), "${1}" + Hidden},
	{regexp.MustCompile(`(?i)((?:api[_-]?key|access[_-]?key|token|password|passwd|secret)["'\\]*\s*(?:[=:]|%3d)\s*\[?\s*["'\\]*)[^\s"',;&\]\\]{4,}`), "${1}" + Hidden},
	{regexp.MustCompile(`\b(hf_|sk-|nvapi-|gh[pousr]_|github_pat_|glpat-|xox[a-z]-|AKIA|ASIA|AIza)[A-Za-z0-9_-]{3,}`), "${1}" + Hidden},
	{regexp.MustCompile(`\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]*)?`), Hidden},
	{regexp.MustCompile(`(?i)(\b(?:signature|credential)=)[^\s"',;&\\]+`), "${1}" + Hidden},
	{regexp.MustCompile(`(://)[^/\s@?#"']+@`), "${1}" + Hidden + "@"},
}

// basicCredentials may be a user's name and password in base64; or two plain words.
var basicCredentials = regexp.MustCompile(`(?i)(\bbasic(?:\s|%20|\+)+)([a-z0-9+/_-]{6,}=*)`)

// maskedBasic is a text without the credentials of basic authentication.
func maskedBasic(text string) string {
	return basicCredentials.ReplaceAllStringFunc(text, func(found string) string {
		parts := basicCredentials.FindStringSubmatch(found)
		word := strings.NewReplacer("-", "+", "_", "/").Replace(strings.TrimRight(parts[2], "="))
		if plain, err := base64.RawStdEncoding.DecodeString(word); err != nil || !strings.Contains(string(plain), ":") {
			return found
		}
		return parts[1] + Hidden
	})
}

// secretSigns are what one of the patterns above needs to match, in small letters: most
// texts have none of it.
var secretSigns = []string{"authorization", "bearer", "basic", "signature", "cookie", "key", "token", "passw", "pwd", "secret", "sig", "auth", "credential", "session",
	"jwt", "code", "hf_", "sk-", "nvapi-", "gho_", "ghp_", "ghu_", "ghs_", "ghr_", "github_pat_", "glpat-", "xox", "akia", "asia", "aiza", "eyj", "://"}

// Masked is a text without what looks like a secret. Who knows a secret hides it with a
// Mask as well: it may look like anything.
func Masked(text string) string {
	small := strings.ToLower(text)
	if !slices.ContainsFunc(secretSigns, func(sign string) bool { return strings.Contains(small, sign) }) {
		return text
	}
	for _, s := range secrets {
		text = s.pattern.ReplaceAllString(text, s.left)
	}
	return maskedBasic(text)
}

// Excerpt is what is kept of a text, in so many bytes: masked, and then cut.
func Excerpt(text string, most int) string { return Cut(strings.TrimSpace(Masked(text)), most) }

// Cut shortens a text to so many bytes, at the boundary of a character.
func Cut(text string, most int) string {
	if len(text) <= most {
		return text
	}
	return strings.ToValidUTF8(text[:most-len(ellipsis)], "") + ellipsis
}

// ellipsis is at the end of what was cut.
const ellipsis = "…"
