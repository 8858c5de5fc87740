package zap

import (
	"flag"
	"fmt"
	"strconv"
	"strings"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// BindFlags defines flags that set the options when they are parsed:
//
//	-zap-devel             development mode
//	-zap-encoder           json or console
//	-zap-log-level         debug, info, error, panic, or a number for logr's V
//	-zap-stacktrace-level  info, error or panic
//	-zap-time-encoding     epoch, millis, nanos, iso8601, rfc3339 or rfc3339nano
func (o *Options) BindFlags(fs *flag.FlagSet) {
	fs.BoolVar(&o.Development, "zap-devel", o.Development,
		"development mode: readable lines, debug messages, stack traces from warnings on")
	fs.Var(&choice{kind: "encoder", set: func(v string) (err error) {
		o.NewEncoder, err = pick(encoders, v)
		return err
	}}, "zap-encoder", "encoding of the log: json or console")
	fs.Var(&choice{kind: "level", set: func(v string) (err error) {
		o.Level, err = parseLevel(v)
		return err
	}}, "zap-log-level", "least level of the log: debug, info, error, panic, or a positive number for more detail than debug")
	fs.Var(&choice{kind: "level", set: func(v string) error {
		level, err := pick(traceLevels, v)
		o.StacktraceLevel = zap.NewAtomicLevelAt(level)
		return err
	}}, "zap-stacktrace-level", "least level that gets a stack trace: info, error or panic")
	fs.Var(&choice{kind: "time-encoding", set: func(v string) (err error) {
		o.TimeEncoder, err = pick(timeEncoders, v)
		return err
	}}, "zap-time-encoding", "encoding of the time: epoch, millis, nanos, iso8601, rfc3339 or rfc3339nano (default rfc3339)")
}

var (
	encoders = map[string]NewEncoderFunc{
		"json":    newJSONEncoder,
		"console": newConsoleEncoder,
	}
	levels = map[string]zapcore.Level{
		"debug": zap.DebugLevel,
		"info":  zap.InfoLevel,
		"error": zap.ErrorLevel,
		"panic": zap.PanicLevel,
	}
	traceLevels = map[string]zapcore.Level{
		"info":  zap.InfoLevel,
		"error": zap.ErrorLevel,
		"panic": zap.PanicLevel,
	}
	timeEncoders = map[string]zapcore.TimeEncoder{
		"epoch":       zapcore.EpochTimeEncoder,
		"millis":      zapcore.EpochMillisTimeEncoder,
		"nano":        zapcore.EpochNanosTimeEncoder,
		"nanos":       zapcore.EpochNanosTimeEncoder,
		"iso8601":     zapcore.ISO8601TimeEncoder,
		"rfc3339":     zapcore.RFC3339TimeEncoder,
		"rfc3339nano": zapcore.RFC3339NanoTimeEncoder,
	}
)

func parseLevel(v string) (zapcore.LevelEnabler, error) {
	if level, err := pick(levels, v); err == nil {
		return zap.NewAtomicLevelAt(level), nil
	}
	n, err := strconv.ParseUint(v, 10, 7) // levels are int8
	if err != nil || n == 0 {
		return nil, fmt.Errorf("%q is not a level", v)
	}
	return zap.NewAtomicLevelAt(zapcore.Level(-int8(n))), nil
}

// pick returns the choice of that name, in whatever case.
func pick[T any](choices map[string]T, name string) (T, error) {
	c, ok := choices[strings.ToLower(name)]
	if !ok {
		return c, fmt.Errorf("%q is not one of the choices", name)
	}
	return c, nil
}

// choice is the value of a flag.
type choice struct {
	kind  string
	set   func(string) error
	value string
}

func (c *choice) String() string { return c.value }

// Type is what the value is called in pflag's usage texts.
func (c *choice) Type() string { return c.kind }

func (c *choice) Set(v string) error {
	if err := c.set(v); err != nil {
		return err
	}
	c.value = v
	return nil
}
