package main

import (
	"fmt"
	"os"

	"flyball.dev/controllers/pods"
)

// loadScript returns the script of a file, or nil without a file.
func loadScript(file string) (*pods.Script, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("--script: %w", err)
	}
	script, err := pods.ParseScript(text)
	if err != nil {
		return nil, fmt.Errorf("--script: %s: %w", file, err)
	}
	return script, nil
}
