// Package auditlog writes audit events to a file, according to an audit policy.
//
// Events, policy and format are the same as in kube-apiserver.
//
// Upstream's library writes the file. Without a policy nothing is recorded.
package auditlog

import (
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	internalaudit "k8s.io/apiserver/pkg/apis/audit"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"k8s.io/apiserver/pkg/audit"
	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/apiserver/plugin/pkg/audit/log"
)

// Options configure the audit log. They have the names and the meaning of kube-apiserver's flags.
//
//upstream:k8s.io/apiserver/pkg/server/options.AuditLogOptions
type Options struct {
	// PolicyFile is the path of an audit.k8s.io/v1 Policy, which selects the events. Without a policy, the log has no
	// events.
	PolicyFile string
	// Policy is the content of a policy. It has an effect without PolicyFile only.
	Policy []byte
	// LogPath is the file that events are appended to, or "-" for standard output. Without a path there is no log.
	LogPath string
	// Writer, if not nil, replaces LogPath. It gets one event per call of Write, and the request waits for the call. It
	// must be safe for concurrent use.
	Writer io.Writer
	// Format is "json", the default, or "legacy".
	Format string
	// MaxSize is the size in megabytes at which the file is rotated; zero means never.
	MaxSize int
	// MaxAge is how many days rotated files are kept, and MaxBackups how many rotated files are kept; zero means no
	// limit.
	MaxAge, MaxBackups int
}

// Log is an audit log. It is safe for concurrent use. The file contains the event of a request before the client gets
// the response.
type Log struct {
	Sink   audit.Sink
	Policy audit.PolicyRuleEvaluator
	out    io.Closer
}

// New returns the log, or nil if the options have no policy, or neither a path nor a writer. It fails if the policy or
// the options are invalid or the file cannot be written.
func New(o Options) (*Log, error) {
	if o.Format == "" {
		o.Format = log.FormatJson
	}
	rules, err := o.policy()
	if err != nil {
		return nil, err
	}
	if rules == nil || o.LogPath == "" && o.Writer == nil {
		return nil, nil
	}
	out, err := o.open()
	if err != nil {
		return nil, err
	}
	return &Log{
		Sink:   log.NewBackend(out, o.Format, auditv1.SchemeGroupVersion),
		Policy: policy.NewPolicyRuleEvaluator(rules),
		out:    out,
	}, nil
}

// Check returns the error that New would return for the options or the policy. It writes nothing.
func (o Options) Check() error {
	if o.Format == "" {
		o.Format = log.FormatJson
	}
	_, err := o.policy()
	return err
}

// policy validates the options and returns the policy, or nil if they have none.
func (o *Options) policy() (*internalaudit.Policy, error) {
	if err := o.validate(); err != nil || o.PolicyFile == "" && o.Policy == nil {
		return nil, err
	}
	if o.PolicyFile == "" {
		return policy.LoadPolicyFromBytes(o.Policy)
	}
	rules, err := policy.LoadPolicyFromFile(o.PolicyFile)
	if err != nil {
		return nil, fmt.Errorf("loading audit policy file: %w", err)
	}
	return rules, nil
}

// Close closes the file.
func (l *Log) Close() error { return l.out.Close() }

//upstream:k8s.io/apiserver/pkg/server/options.AuditLogOptions.Validate
func (o *Options) validate() error {
	if !slices.Contains(log.AllowedFormats, o.Format) {
		return fmt.Errorf("invalid audit log format %s, allowed formats are %q", o.Format, strings.Join(log.AllowedFormats, ","))
	}
	var errs []error
	for _, number := range []struct {
		flag  string
		value int
	}{{"maxage", o.MaxAge}, {"maxbackup", o.MaxBackups}, {"maxsize", o.MaxSize}} {
		if number.value < 0 {
			errs = append(errs, fmt.Errorf("--audit-log-%s %d can't be a negative number", number.flag, number.value))
		}
	}
	return errors.Join(errs...)
}

func (o *Options) open() (io.WriteCloser, error) {
	if o.Writer != nil {
		return unclosed{o.Writer}, nil
	}
	if o.LogPath == "-" {
		return unclosed{os.Stdout}, nil
	}
	return openRotated(o.LogPath, int64(o.MaxSize)<<20, o.MaxAge, o.MaxBackups)
}

// unclosed is a writer that stays open when the log is closed.
type unclosed struct{ io.Writer }

func (unclosed) Close() error { return nil }
