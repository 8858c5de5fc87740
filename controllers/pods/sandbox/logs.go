package sandbox

import (
	"bytes"
	"context"
	"errors"
	"io"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"
)

// The bounds of logs, in bytes. A log drops its oldest lines.
const (
	maxLog      = 1 << 20
	maxLogs     = 64 << 20 // of all containers
	maxCrowded  = 64 << 10 // of one log, when all have maxLogs
	maxLine     = 16 << 10
	lineCost    = 64
	timeFormat  = "2006-01-02T15:04:05.000000000Z07:00"
	messageSize = 4096 // of a termination message
)

// Line is a line of a log.
type Line struct {
	At     time.Time
	Stderr bool
	Text   string // with its newline, unless it is the end of a log, or longer than 16 KiB
}

// logBuffer is the log of one run of a container.
type logBuffer struct {
	total *atomic.Int64 // the bytes of all logs

	mu      sync.Mutex
	lines   []Line
	first   int // the number of lines[0]
	size    int64
	partial [2][]byte // of stdout and stderr
	closed  bool
	changed chan struct{} // closed with the next change
}

func newLogBuffer(total *atomic.Int64) *logBuffer {
	return &logBuffer{total: total, changed: make(chan struct{})}
}

// write adds output.
//
//upstream:none A container runtime writes logs to files.
func (l *logBuffer) write(stderr bool, p []byte) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	i := 0
	if stderr {
		i = 1
	}
	for len(p) > 0 {
		line, rest, ends := bytes.Cut(p, []byte("\n"))
		if room := maxLine - len(l.partial[i]); len(line) > room {
			line, rest, ends = p[:room], p[room:], false
		}
		l.partial[i] = append(l.partial[i], line...)
		if ends {
			l.partial[i] = append(l.partial[i], '\n')
		}
		if ends || len(l.partial[i]) >= maxLine {
			l.flush(i)
		}
		p = rest
	}
}

// flush adds the unfinished line of a stream. The caller has the lock.
func (l *logBuffer) flush(i int) {
	if len(l.partial[i]) == 0 {
		return
	}
	l.add(Line{time.Now(), i == 1, string(l.partial[i])})
	l.partial[i] = nil
	close(l.changed)
	l.changed = make(chan struct{})
}

// add adds a line, and drops the oldest. The caller has the lock.
//
//upstream:none A container runtime writes logs to files.
func (l *logBuffer) add(line Line) {
	cost := func(line Line) int64 { return lineCost + int64(len(line.Text)) }
	l.lines = append(l.lines, line)
	l.size += cost(line)
	bound := int64(maxLog)
	if l.total.Add(cost(line)) > maxLogs {
		bound = maxCrowded
	}
	dropped := 0
	for l.size > bound && dropped < len(l.lines)-1 {
		l.size -= cost(l.lines[dropped])
		l.total.Add(-cost(l.lines[dropped]))
		l.lines[dropped] = Line{}
		dropped++
	}
	l.first += dropped
	if l.lines = l.lines[dropped:]; dropped > 0 && cap(l.lines) < len(l.lines)*2 {
		l.lines = slices.Clone(l.lines)
	}
}

// close ends the log.
func (l *logBuffer) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.closed {
		l.flush(0)
		l.flush(1)
		l.closed = true
		close(l.changed)
	}
}

// drop removes all lines.
func (l *logBuffer) drop() {
	l.close()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.total.Add(-l.size)
	l.first, l.lines, l.size = l.first+len(l.lines), nil, 0
}

// read implements logSource.
func (l *logBuffer) read(from int) (lines []Line, next int, more <-chan struct{}) {
	l.mu.Lock()
	defer l.mu.Unlock()
	from = max(from, l.first)
	next = l.first + len(l.lines)
	if from < next {
		lines = slices.Clone(l.lines[from-l.first:])
	}
	if !l.closed {
		more = l.changed
	}
	return lines, next, more
}

// tail returns the last lines, as a termination message has them.
func (l *logBuffer) tail() string {
	const maxLines, maxBytes = 80, 2048
	lines, _, _ := l.read(0)
	var text string
	for _, line := range lines[max(0, len(lines)-maxLines):] {
		text += line.Text
	}
	return text[max(0, len(text)-maxBytes):]
}

// logSource is a log that may grow. read returns the lines from a number on and the number of the next. more is nil if
// the log has ended, and is otherwise closed, or receives, when read should be called again.
type logSource interface {
	read(from int) (lines []Line, next int, more <-chan struct{})
}

// errLimit ends a log with LimitBytes.
var errLimit = errors.New("the limit is reached")

// copyLog writes a log to w, as the options say. A reader that follows the log stops when ended is closed, after the last lines.
//
//upstream:k8s.io/cri-client/pkg/logs.ReadLogs
func copyLog(ctx context.Context, source logSource, ended <-chan struct{}, o *corev1.PodLogOptions, w io.Writer) error {
	c := &logCopier{w: w, timestamps: o.Timestamps, left: ptr.Deref(o.LimitBytes, -1), lineStart: true}
	switch {
	case o.SinceTime != nil:
		c.since = o.SinceTime.Time
	case o.SinceSeconds != nil:
		c.since = time.Now().Add(-time.Duration(*o.SinceSeconds) * time.Second)
	}
	switch ptr.Deref(o.Stream, corev1.LogStreamAll) {
	case corev1.LogStreamStdout:
		c.only, c.stderr = true, false
	case corev1.LogStreamStderr:
		c.only, c.stderr = true, true
	}
	lines, next, more := source.read(0)
	if tail := ptr.Deref(o.TailLines, -1); tail >= 0 && tail < int64(len(lines)) {
		lines = lines[int64(len(lines))-tail:]
	}
	for {
		for _, line := range lines {
			if err := c.write(line); err != nil {
				if errors.Is(err, errLimit) {
					return nil
				}
				return err
			}
		}
		if !o.Follow || more == nil {
			return nil
		}
		over := false
		select {
		case <-more:
		case <-ended:
			over = true
		case <-ctx.Done():
			return nil
		}
		if lines, next, more = source.read(next); over {
			more = nil
		}
	}
}

// logCopier writes the lines of a log.
type logCopier struct {
	w            io.Writer
	timestamps   bool
	since        time.Time
	only, stderr bool
	left         int64 // bytes, or a negative number without a limit
	lineStart    bool
}

// write writes a line, unless the options leave it out. It returns errLimit after the last line.
//
//upstream:k8s.io/cri-client/pkg/logs.logWriter.write
func (c *logCopier) write(l Line) error {
	if l.At.Before(c.since) || c.only && l.Stderr != c.stderr {
		return nil
	}
	text := l.Text
	if c.timestamps && c.lineStart {
		text = l.At.UTC().Format(timeFormat) + " " + text
	}
	c.lineStart = text[len(text)-1] == '\n'
	limited := c.left >= 0 && int64(len(text)) >= c.left
	if limited {
		text = text[:c.left]
	}
	if _, err := io.WriteString(c.w, text); err != nil {
		return err
	}
	if limited {
		return errLimit
	}
	if c.left >= 0 {
		c.left -= int64(len(text))
	}
	return nil
}
