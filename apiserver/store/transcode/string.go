package transcode

import (
	"unicode/utf8"
)

// plain are the characters that are in a string of JSON as they are.
var plain = func() (plain [utf8.RuneSelf]bool) {
	for c := ' '; c < utf8.RuneSelf; c++ {
		plain[c] = c != '"' && c != '\\' && c != '<' && c != '>' && c != '&'
	}
	return plain
}()

const digits = "0123456789abcdef"

// appendString appends a string as encoding/json does, with the characters escaped that HTML must not have.
func appendString(to, s []byte) []byte {
	to = append(to, '"')
	start := 0
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf && plain[c] {
			i++
			continue
		}
		r, size := utf8.DecodeRune(s[i:])
		if c >= utf8.RuneSelf && r != '\u2028' && r != '\u2029' && (r != utf8.RuneError || size > 1) {
			i += size
			continue
		}
		to = appendEscaped(append(to, s[start:i]...), r)
		i += size
		start = i
	}
	return append(append(to, s[start:]...), '"')
}

// appendEscaped appends an escaped character.
func appendEscaped(to []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(to, '\\', byte(r))
	case '\b':
		return append(to, `\b`...)
	case '\f':
		return append(to, `\f`...)
	case '\n':
		return append(to, `\n`...)
	case '\r':
		return append(to, `\r`...)
	case '\t':
		return append(to, `\t`...)
	}
	return append(to, '\\', 'u', digits[r>>12&15], digits[r>>8&15], digits[r>>4&15], digits[r&15])
}
