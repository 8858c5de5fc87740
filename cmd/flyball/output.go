package main

import (
	"encoding/json"
	"fmt"
	"io"
)

// checkOutput checks the flag --output of a command that prints text or JSON.
func checkOutput(format string) error {
	if format != "" && format != "json" {
		return fmt.Errorf("unknown output format %q: there is json", format)
	}
	return nil
}

// printJSON prints a value as JSON for people and programs.
func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}
