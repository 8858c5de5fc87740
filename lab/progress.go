package lab

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// progress is how far the explorations of one scenario by one program have come. The next one goes on from there.
type progress struct {
	Schedules int // the number of schedules that were tried
}

// progressPath returns the path of the file with the progress, in the cache of the user. Another program has another file, since any change
// of the code may matter.
func (e *explorer) progressPath() (string, error) {
	folder, err := os.UserCacheDir()
	if err != nil {
		return "", err
	}
	path, err := os.Executable()
	if err != nil {
		return "", err
	}
	program, err := os.Open(path)
	if err != nil {
		return "", err
	}
	defer program.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, program); err != nil {
		return "", err
	}
	io.WriteString(sum, e.t.Name())
	return filepath.Join(folder, "flyball", "lab", hex.EncodeToString(sum.Sum(nil)[:16])), nil
}

// readProgress reads the progress. Without a file, the exploration begins anew.
func (e *explorer) readProgress() (p progress) {
	path, err := e.progressPath()
	if err != nil {
		return progress{}
	}
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return progress{}
	}
	if err == nil {
		err = json.Unmarshal(content, &p)
	}
	if err != nil || p.Schedules < 0 {
		e.t.Logf("lab: ignoring %s: %v", path, err)
		return progress{}
	}
	if p.Schedules > 0 {
		e.t.Logf("lab: the same program has tried %d schedules before; delete %s to begin anew", p.Schedules, path)
	}
	return p
}

// writeProgress writes the progress. If that is not possible, the next exploration begins anew.
func (e *explorer) writeProgress(p progress) {
	path, err := e.progressPath()
	if err != nil {
		return
	}
	content, err := json.Marshal(p)
	if err != nil || os.MkdirAll(filepath.Dir(path), 0o755) != nil {
		return
	}
	_ = os.WriteFile(path, content, 0o644)
}
