package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"unicode"
	"unicode/utf16"
)

// checkOutput checks the flag --output of a command that prints text or JSON.
func checkOutput(format string) error {
	if format != "" && format != "json" {
		return fmt.Errorf("unknown output format %q: there is json", format)
	}
	return nil
}

// printJSON prints a value as JSON for people and programs. Characters that are not printable are escaped, as a terminal
// obeys some that JSON permits.
func printJSON(out io.Writer, value any) error {
	var b bytes.Buffer
	encoder := json.NewEncoder(&b)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(value); err != nil {
		return err
	}
	var text strings.Builder
	for _, r := range b.String() {
		if r == '\n' || unicode.IsPrint(r) {
			text.WriteRune(r)
			continue
		}
		for _, unit := range utf16.Encode([]rune{r}) {
			fmt.Fprintf(&text, `\u%04x`, unit)
		}
	}
	_, err := io.WriteString(out, text.String())
	return err
}
