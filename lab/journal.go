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
// process, and nothing can recover it. The Go runtime then adds its report to the file, and the next exploration of the test
// finds both.
type journal struct {
	file *os.File
}

// journalName is the name of the file in the folder of the findings.
const journalName = "unfinished"

// openJournal creates the file. Without a file, such as in a folder that nobody may write, a panic only has its stack.
func (e *explorer) openJournal() *journal {
	path := filepath.Join(e.directory(), journalName)
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

// begin writes the schedule of the next run.
func (j *journal) begin(s Schedule) {
	if j == nil {
		return
	}
	content, err := json.Marshal(s)
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

// unfinished returns the finding in the journal of a process that a panic has ended, or nil.
func (e *explorer) unfinished() (*Finding, error) {
	content, err := os.ReadFile(filepath.Join(e.directory(), journalName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	first, report, _ := bytes.Cut(content, []byte("\n"))
	f := &Finding{Check: panicked, Story: string(report)}
	for line := range strings.Lines(f.Story) {
		if message, ok := strings.CutPrefix(line, "panic: "); ok {
			f.Message = fmt.Sprintf("panic in a goroutine of the operator, which ended the last test process: %s", strings.TrimSpace(message))
			break
		}
	}
	if f.Message == "" || json.Unmarshal(first, &f.Schedule) != nil {
		return nil, nil // somebody has ended the process
	}
	return f, nil
}
