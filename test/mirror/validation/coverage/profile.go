package main

import (
	"fmt"
	"os"
	"strings"
)

// block is a line of a profile.
type block struct {
	file                    string // with the path of the package
	line, column, end, last int
	statements, times       int
}

func readProfile(name string) ([]block, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	var all []block
	for line := range strings.Lines(string(text)) {
		file, rest, ok := strings.Cut(line, ":")
		if !ok || file == "mode" {
			continue
		}
		b := block{file: file}
		if _, err := fmt.Sscanf(rest, "%d.%d,%d.%d %d %d", &b.line, &b.column, &b.end, &b.last, &b.statements, &b.times); err != nil {
			return nil, fmt.Errorf("%s: %w", line, err)
		}
		all = append(all, b)
	}
	return all, nil
}
