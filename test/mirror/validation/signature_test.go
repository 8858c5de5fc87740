package validation

import (
	"regexp"
	"strings"
)

var (
	inBrackets = regexp.MustCompile(`\[[^\]]*\]`)
	quoted     = regexp.MustCompile("\"(?:[^\"\\\\]|\\\\.)*\"|`[^`]*`|'[^']*'")
	numbers    = regexp.MustCompile(`-?[0-9]+`)
	bothSides  = regexp.MustCompile(`ours .*, theirs .*$`)
)

// signature returns a difference without names, numbers and values, by which equal differences are found.
func signature(difference string) string {
	s := quoted.ReplaceAllString(difference, "_")
	if strings.HasPrefix(s, "default ") || strings.HasPrefix(s, "object ") {
		s = bothSides.ReplaceAllString(difference, "")
		s = strings.TrimSuffix(s, ": ")
	}
	s = inBrackets.ReplaceAllString(s, "[]")
	s = numbers.ReplaceAllString(s, "0")
	if i := strings.IndexAny(s, "{\n"); i >= 0 {
		s = s[:i]
	}
	if len(s) > 200 {
		s = s[:200]
	}
	return strings.TrimSpace(s)
}
