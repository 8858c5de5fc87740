package lab

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime/debug"
	"strings"
)

// A journal is a file with the schedule of the run that goes on. A panic in a goroutine that the operator has started ends the
// process, and nothing can recover it; so does the panic of the lab when a run is stuck. The Go runtime then adds its report to the
// file, and the next exploration of the test finds both.
type journal struct {
	file *os.File
}

// journalName is the name of the file in the folder of the findings.
const journalName = "unfinished"

// journalPath returns the path of the journal of this process.
func (e *explorer) journalPath() string { return filepath.Join(e.directory(), journalName) }

// openJournal creates the file. Without a file, such as in a folder that nobody may write, a panic only has its stack.
func openJournal(path string) *journal {
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return nil
	}
	file, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC|os.O_APPEND, 0o644)
	if err != nil {
		return nil
	}
	j := &journal{file}
	if err := debug.SetCrashOutput(file, debug.CrashOptions{}); err != nil {
		j.close()
		return nil
	}
	return j
}

// begin writes the schedule and the steps of the next run.
func (j *journal) begin(s Schedule, steps []StepRef) {
	if j == nil {
		return
	}
	content, err := json.Marshal(saved{Schedule: s, Steps: steps})
	if err == nil && j.file.Truncate(0) == nil {
		_, _ = j.file.Write(append(content, '\n')) // else a panic only has its stack
	}
}

// close removes the file, and its folders if nothing else is in them.
func (j *journal) close() {
	if j == nil {
		return
	}
	_ = debug.SetCrashOutput(nil, debug.CrashOptions{}) // it cannot fail without a file
	j.file.Close()
	os.Remove(j.file.Name())
	for folder := filepath.Dir(j.file.Name()); folder != "."; folder = filepath.Dir(folder) {
		if os.Remove(folder) != nil {
			return // it is not empty
		}
	}
}

// unfinished returns the finding in the journal of a process that did not end by itself, or nil.
func (e *explorer) unfinished() (*Finding, error) {
	path := e.journalPath()
	f, err := readJournal(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err == nil && f == nil {
		fmt.Fprintf(os.Stderr, "lab: ignoring %s: somebody has ended the last test process, or it took too long\n", path)
	}
	return f, err
}

// readJournal returns the finding in the journal of a process that has ended, or nil if somebody else has ended the process.
func readJournal(path string) (*Finding, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	first, report, _ := bytes.Cut(content, []byte("\n"))
	f, s := crashOf(string(report)), saved{}
	if f == nil || json.Unmarshal(first, &s) != nil {
		return nil, nil
	}
	f.Schedule, f.Steps = s.Schedule, s.Steps
	return f, nil
}

// crashOf returns the finding in the report of the Go runtime about the end of a process. It returns nil if the report has none: go test
// ends a test that takes too long with a panic too.
func crashOf(report string) *Finding {
	for line := range strings.Lines(report) {
		line = strings.TrimSpace(line)
		message, isPanic := strings.CutPrefix(line, "panic: ")
		fatal, isFatal := strings.CutPrefix(line, "fatal error: ")
		stuck, isStuck := strings.CutPrefix(message, stuckPrefix)
		switch {
		case isPanic && strings.HasPrefix(message, "test timed out after "):
			return nil
		case isStuck:
			return &Finding{Check: stuckRun, Message: "the test process ended, because " + stuck, Story: report}
		case isPanic:
			return &Finding{Check: panicked, Message: "panic in a goroutine of the operator, which ended the test process: " + message, Story: report}
		case isFatal:
			return &Finding{Check: panicked, Message: "fatal error of the Go runtime, which ended the test process: " + fatal, Story: report}
		}
	}
	return nil
}
