package storage

import (
	"errors"
	"testing"
)

func TestCovers(t *testing.T) {
	for _, test := range []struct {
		path, key string
		want      bool
	}{
		{"", "a", true},
		{"a/", "a/b", true},
		{"a/", "a", false},
		{"a", "a", true},
		{"a", "a/b", false},
		{"a", "ab", false},
		{"/", "a", false},
	} {
		if got := Covers(test.path, test.key); got != test.want {
			t.Errorf("Covers(%q, %q) = %v", test.path, test.key, got)
		}
	}
}

func TestCheckKey(t *testing.T) {
	for key, want := range map[string]error{"": ErrKey, "/": nil, "a/": nil, "a": nil, "\x00": nil} {
		if err := CheckKey(key); !errors.Is(err, want) {
			t.Errorf("CheckKey(%q): %v", key, err)
		}
	}
}
