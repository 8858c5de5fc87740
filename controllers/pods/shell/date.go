package shell

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// dateLayouts are the layouts that date -d parses.
var dateLayouts = []string{time.RFC3339Nano, "2006-01-02 15:04:05", "2006-01-02T15:04:05", "2006-01-02 15:04", "2006-01-02", "15:04:05", time.RFC1123Z, time.RFC1123, time.UnixDate}

// date prints a time. The time zone is UTC.
func date(c *invocation) int {
	o, ok := c.options("uRd:I:r: utc=u universal=u date=d rfc-2822=R rfc-email=R")
	if !ok && len(c.args) == 2 && c.args[1] == "-I" {
		return 1
	}
	if !ok {
		return 1
	}
	now := time.Now().UTC()
	if o.has('d') {
		t, ok := parseDate(o.get('d'), now)
		if !ok {
			return c.errorf("invalid date '%s'", o.get('d'))
		}
		now = t
	}
	if o.has('r') {
		info, err := c.in.stat(c.path(o.get('r')))
		if err != nil {
			return c.fileError(o.get('r'), err)
		}
		now = info.ModTime().UTC()
	}
	format := "%a %b %e %H:%M:%S %Z %Y"
	switch {
	case o.has('R'):
		format = "%a, %d %b %Y %H:%M:%S %z"
	case o.has('I'):
		format = map[string]string{"date": "%Y-%m-%d", "seconds": "%Y-%m-%dT%H:%M:%S+00:00", "ns": "%Y-%m-%dT%H:%M:%S,%N+00:00"}[o.get('I')]
	}
	for _, arg := range o.args {
		f, ok := strings.CutPrefix(arg, "+")
		if !ok {
			return c.errorf("can't set date: Operation not permitted")
		}
		format = f
	}
	text, err := strftime(format, now)
	if err != nil {
		return c.errorf("%v", err)
	}
	c.printf("%s\n", text)
	return 0
}

func parseDate(s string, now time.Time) (time.Time, bool) {
	if n, ok := strings.CutPrefix(s, "@"); ok {
		f, err := strconv.ParseFloat(n, 64)
		return time.Unix(int64(f), 0).UTC(), err == nil
	}
	if s == "now" {
		return now, true
	}
	for _, layout := range dateLayouts {
		if t, err := time.Parse(layout, s); err == nil {
			if layout == "15:04:05" {
				t = time.Date(now.Year(), now.Month(), now.Day(), t.Hour(), t.Minute(), t.Second(), 0, time.UTC)
			}
			return t.UTC(), true
		}
	}
	return now, false
}

// strftime formats a time.
func strftime(format string, t time.Time) (string, error) {
	layouts := map[byte]string{'a': "Mon", 'A': "Monday", 'b': "Jan", 'B': "January", 'h': "Jan", 'd': "02", 'e': "_2", 'D': "01/02/06", 'F': "2006-01-02",
		'H': "15", 'I': "03", 'm': "01", 'M': "04", 'p': "PM", 'P': "pm", 'R': "15:04", 'S': "05", 'T': "15:04:05", 'y': "06", 'Y': "2006", 'z': "-0700", 'Z': "MST",
		'c': "Mon Jan _2 15:04:05 2006", 'x': "01/02/06", 'X': "15:04:05", 'r': "03:04:05 PM"}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		if format[i] != '%' || i+1 == len(format) {
			b.WriteByte(format[i])
			continue
		}
		i++
		pad := true
		if format[i] == '-' && i+1 < len(format) {
			pad = false
			i++
		}
		text := ""
		switch f := format[i]; f {
		case '%':
			text = "%"
		case 'n':
			text = "\n"
		case 't':
			text = "\t"
		case 's':
			text = strconv.FormatInt(t.Unix(), 10)
		case 'N':
			text = fmt.Sprintf("%09d", t.Nanosecond())
		case 'j':
			text = fmt.Sprintf("%03d", t.YearDay())
		case 'u':
			text = strconv.Itoa((int(t.Weekday())+6)%7 + 1)
		case 'w':
			text = strconv.Itoa(int(t.Weekday()))
		case 'C':
			text = strconv.Itoa(t.Year() / 100)
		case 'G', 'V':
			year, week := t.ISOWeek()
			if text = strconv.Itoa(year); f == 'V' {
				text = fmt.Sprintf("%02d", week)
			}
		case 'k':
			text = fmt.Sprintf("%2d", t.Hour())
		default:
			layout, ok := layouts[f]
			if !ok {
				return "", fmt.Errorf("the format %%%c is not supported", f)
			}
			text = t.Format(layout)
		}
		if !pad {
			text = strings.TrimLeft(text, "0 ")
			if text == "" {
				text = "0"
			}
		}
		b.WriteString(text)
	}
	return b.String(), nil
}
