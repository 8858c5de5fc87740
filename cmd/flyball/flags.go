package main

import (
	"encoding/csv"
	"errors"
	"slices"
	"strings"

	"github.com/spf13/pflag"
)

// refuseEmpty makes the flags with text refuse an empty value, such as "$DIR" has in a shell when DIR is not set. The
// command would do the same as without the flag: keep objects in memory, for instance, or in plain text.
func refuseEmpty(flags *pflag.FlagSet, names ...string) {
	for _, name := range names {
		f := flags.Lookup(name)
		f.Value = nonEmpty{f.Value}
		if f.DefValue == "[]" {
			f.DefValue = "" // pflag knows its own types of slices alone
		}
	}
}

// nonEmpty is the value of a flag that must not be empty. A list must have no empty element.
type nonEmpty struct{ pflag.Value }

var errEmpty = errors.New("must not be empty")

// Set implements [pflag.Value].
func (v nonEmpty) Set(text string) error {
	elements := []string{text}
	if v.Type() == "stringSlice" && text != "" {
		elements, _ = csv.NewReader(strings.NewReader(text)).Read() // on error, Set below returns it
	}
	if slices.ContainsFunc(elements, func(s string) bool { return strings.TrimSpace(s) == "" }) {
		return errEmpty
	}
	return v.Value.Set(text)
}
