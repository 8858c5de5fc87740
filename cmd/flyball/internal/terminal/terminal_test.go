package terminal

import (
	"strings"
	"testing"
)

func TestQuoted(t *testing.T) {
	for text, want := range map[string]string{
		"plain, Grüße, 漢字":          "plain, Grüße, 漢字",
		"\x1b]0;owned\x07":          `\x1b]0;owned\a`,
		"two\nlines\r\tand more":    `two\nlines\r\tand more`,
		"\u009b31m and \x7f":        `\u009b31m and \x7f`,
		"right\u202eto left":        `right\u202eto left`,
		"no \xff UTF-8, but \ufffd": "no \\xff UTF-8, but \ufffd",
		`it's a \ and "quotes"`:     `it's a \ and "quotes"`,
		"":                          "",
	} {
		if got := Quoted(text); got != want {
			t.Errorf("Quoted(%q) is %s, want %s", text, got, want)
		}
	}
}

func TestPrintf(t *testing.T) {
	var b strings.Builder
	Printf(&b, "%s\t%d\n", "a\x1bb", 7)
	if b.String() != "a\\x1bb\t7\n" {
		t.Errorf("the text is %q", b.String())
	}
}
