// Package zap creates loggers with Zap (go.uber.org/zap) as their backend.
//
//	log.SetLogger(zap.New(zap.UseDevMode(true)))
//
// An object that is logged as a value is encoded as its kind, namespace and name. In development
// mode it is encoded completely, unless it is a Secret.
package zap

import (
	"io"
	"os"
	"time"

	"github.com/go-logr/logr"
	"github.com/go-logr/zapr"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
)

// EncoderConfigOption changes the configuration of an encoder.
type EncoderConfigOption func(*zapcore.EncoderConfig)

// NewEncoderFunc creates an encoder.
type NewEncoderFunc func(...EncoderConfigOption) zapcore.Encoder

// Opts changes Options.
type Opts func(*Options)

// Options are the options of a logger. The zero value is for production.
type Options struct {
	// Development sets the defaults of the other options for development: console encoder, debug
	// level, stack traces from warnings on, complete objects. Otherwise the defaults are for
	// production: JSON encoder, info level, stack traces from errors on, and sampling, which logs
	// of equal messages within a second only every hundredth after the first hundred.
	Development bool
	// Encoder encodes the entries. If it is set, NewEncoder and
	// EncoderConfigOptions are not used.
	Encoder zapcore.Encoder
	// EncoderConfigOptions are passed to NewEncoder.
	EncoderConfigOptions []EncoderConfigOption
	// NewEncoder creates the encoder.
	NewEncoder NewEncoderFunc
	// DestWriter is the destination of the log. Standard error if nil.
	DestWriter io.Writer
	// Level is the minimum level. logr's verbosity v is level -v:
	// for logr's V(3), use zapcore.Level(-3).
	Level zapcore.LevelEnabler
	// StacktraceLevel is the minimum level at which stack traces are logged.
	StacktraceLevel zapcore.LevelEnabler
	// ZapOpts are options for Zap itself.
	ZapOpts []zap.Option
	// TimeEncoder encodes the time. RFC 3339 if nil.
	TimeEncoder zapcore.TimeEncoder
}

// New returns a logger.
func New(opts ...Opts) logr.Logger {
	return zapr.NewLogger(NewRaw(opts...))
}

// NewRaw returns a logger with Zap's own methods.
func NewRaw(opts ...Opts) *zap.Logger {
	var o Options
	for _, opt := range opts {
		opt(&o)
	}
	o.setDefaults()
	encoder := o.Encoder
	if encoder == nil {
		// The caller's options come last, as they take precedence.
		setTime := func(c *zapcore.EncoderConfig) { c.EncodeTime = o.TimeEncoder }
		all := append([]EncoderConfigOption{setTime}, o.EncoderConfigOptions...)
		encoder = o.NewEncoder(all...)
	}
	out := zapcore.AddSync(o.DestWriter)
	core := kubeCore{
		Core:    zapcore.NewCore(&KubeAwareEncoder{Encoder: encoder, Verbose: o.Development}, out, o.Level),
		verbose: o.Development,
	}
	zapOpts := []zap.Option{zap.ErrorOutput(out), zap.AddStacktrace(o.StacktraceLevel)}
	if o.Development {
		zapOpts = append(zapOpts, zap.Development())
	} else if !o.Level.Enabled(zapcore.DebugLevel - 1) {
		// Zap samples by level, and has none below debug.
		zapOpts = append(zapOpts, zap.WrapCore(func(c zapcore.Core) zapcore.Core {
			return zapcore.NewSamplerWithOptions(c, time.Second, 100, 100)
		}))
	}
	return zap.New(core).WithOptions(append(zapOpts, o.ZapOpts...)...)
}

func (o *Options) setDefaults() {
	newEncoder, level, trace := newJSONEncoder, zap.InfoLevel, zap.ErrorLevel
	if o.Development {
		newEncoder, level, trace = newConsoleEncoder, zap.DebugLevel, zap.WarnLevel
	}
	if o.NewEncoder == nil {
		o.NewEncoder = newEncoder
	}
	if o.Level == nil {
		o.Level = zap.NewAtomicLevelAt(level)
	}
	if o.StacktraceLevel == nil {
		o.StacktraceLevel = zap.NewAtomicLevelAt(trace)
	}
	if o.DestWriter == nil {
		o.DestWriter = os.Stderr
	}
	if o.TimeEncoder == nil {
		o.TimeEncoder = zapcore.RFC3339TimeEncoder
	}
}

// UseDevMode sets Options.Development.
func UseDevMode(enabled bool) Opts {
	return func(o *Options) { o.Development = enabled }
}

// WriteTo sets Options.DestWriter.
func WriteTo(out io.Writer) Opts {
	return func(o *Options) { o.DestWriter = out }
}

// Encoder sets Options.Encoder.
func Encoder(encoder zapcore.Encoder) func(o *Options) {
	return func(o *Options) { o.Encoder = encoder }
}

// JSONEncoder encodes entries as JSON.
func JSONEncoder(opts ...EncoderConfigOption) func(o *Options) {
	return Encoder(newJSONEncoder(opts...))
}

// ConsoleEncoder encodes entries as plain text.
func ConsoleEncoder(opts ...EncoderConfigOption) func(o *Options) {
	return Encoder(newConsoleEncoder(opts...))
}

// Level sets Options.Level.
func Level(level zapcore.LevelEnabler) func(o *Options) {
	return func(o *Options) { o.Level = level }
}

// StacktraceLevel sets Options.StacktraceLevel.
func StacktraceLevel(stacktraceLevel zapcore.LevelEnabler) func(o *Options) {
	return func(o *Options) { o.StacktraceLevel = stacktraceLevel }
}

// RawZapOpts adds to Options.ZapOpts.
func RawZapOpts(zapOpts ...zap.Option) func(o *Options) {
	return func(o *Options) { o.ZapOpts = append(o.ZapOpts, zapOpts...) }
}

// UseFlagOptions replaces all options by those that BindFlags has bound to
// flags. The flags must have been parsed.
func UseFlagOptions(in *Options) Opts {
	return func(o *Options) { *o = *in }
}

func newJSONEncoder(opts ...EncoderConfigOption) zapcore.Encoder {
	return zapcore.NewJSONEncoder(encoderConfig(zap.NewProductionEncoderConfig(), opts))
}

func newConsoleEncoder(opts ...EncoderConfigOption) zapcore.Encoder {
	return zapcore.NewConsoleEncoder(encoderConfig(zap.NewDevelopmentEncoderConfig(), opts))
}

func encoderConfig(c zapcore.EncoderConfig, opts []EncoderConfigOption) zapcore.EncoderConfig {
	for _, opt := range opts {
		opt(&c)
	}
	return c
}
