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
		"development mode: console encoder, debug level, stack traces from warnings on")
	fs.Var(&value{kind: "encoder", what: "encoder value", set: func(v string) (err error) {
		o.NewEncoder, err = pick(encoders, v)
		return err
	}}, "zap-encoder", "log encoding: json or console")
	fs.Var(&value{kind: "level", what: "log level", set: func(v string) (err error) {
		o.Level, err = parseLevel(v)
		return err
	}}, "zap-log-level", "minimum log level: debug, info, error, panic, "+
		"or a positive number for higher verbosity than debug")
	fs.Var(&value{kind: "level", what: "stacktrace level", set: func(v string) error {
		level, err := pick(traceLevels, v)
		o.StacktraceLevel = zap.NewAtomicLevelAt(level)
		return err
	}}, "zap-stacktrace-level", "minimum level at which stack traces are logged: info, error or panic")
	fs.Var(&value{kind: "time-encoding", what: "time-encoding value", set: func(v string) (err error) {
		o.TimeEncoder, err = pick(timeEncoders, v)
		return err
	}}, "zap-time-encoding", "time encoding: epoch, millis, nanos, iso8601, rfc3339 or rfc3339nano (default rfc3339)")
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
		return nil, strconv.ErrSyntax
	}
	return zap.NewAtomicLevelAt(zapcore.Level(-int8(n))), nil
}

// pick returns the choice of that name, ignoring case.
func pick[T any](choices map[string]T, name string) (T, error) {
	c, ok := choices[strings.ToLower(name)]
	if !ok {
		return c, strconv.ErrSyntax
	}
	return c, nil
}

// value is a flag.Value that sets an option.
type value struct {
	kind string // for pflag's usage texts
	what string // for errors
	set  func(string) error
	text string
}

func (v *value) String() string { return v.text }

// Type returns the name of the type in pflag's usage texts.
func (v *value) Type() string { return v.kind }

func (v *value) Set(text string) error {
	if err := v.set(text); err != nil {
		return fmt.Errorf("invalid %s %q", v.what, text)
	}
	v.text = text
	return nil
}
