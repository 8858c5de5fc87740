package dev

import (
	"bytes"
	"fmt"
	"path/filepath"
	"regexp"
)

// stacks folds the stack traces in the log of an operator: of a trace after an error, only the project's frames remain.
// Traces of a crash have another format and stay unchanged.
type stacks struct{ project string }

// A frame has two lines.
var (
	frameFunction = regexp.MustCompile(`^[\w.~/%-]+\.[^\s=:{]+$`)
	frameFile     = regexp.MustCompile(`^\t(\S+\.(?:go|s)):\d+$`)
)

// fold folds the stack traces in lines that were written at once.
func (s *stacks) fold(lines [][]byte) (kept [][]byte) {
	folded := 0
	unfolded := func() {
		if folded > 0 {
			kept = append(kept, fmt.Appendf(nil, "\t(stack trace: %d lines are folded, which --stack-traces shows)", folded))
			folded = 0
		}
	}
	for i := 0; i < len(lines); i++ {
		if i+1 < len(lines) && frameFunction.Match(lines[i]) {
			if file := frameFile.FindSubmatch(bytes.TrimSuffix(lines[i+1], []byte("\r"))); file != nil && !s.inProject(string(file[1])) {
				folded += 2
				i++
				continue
			}
		}
		unfolded()
		kept = append(kept, lines[i])
	}
	unfolded()
	return kept
}

// inProject reports whether a file is one of the project.
func (s *stacks) inProject(file string) bool {
	rel, err := filepath.Rel(s.project, file)
	return err == nil && filepath.IsLocal(rel)
}
