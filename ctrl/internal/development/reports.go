package development

import (
	"sync"

	"github.com/go-logr/logr"
	"github.com/prometheus/client_golang/prometheus"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"flyball.dev/ctrl/config"
	"flyball.dev/ctrl/metrics"
)

var warnings = prometheus.NewCounterVec(prometheus.CounterOpts{
	Name: "flyball_development_warnings_total",
	Help: "Total number of warnings of Options.Development per check.",
}, []string{"check"})

func init() { metrics.Registry.MustRegister(warnings) }

// maxReports is how many warnings of one check are reported. It also bounds the memory.
const maxReports = 50

// reports reports each warning once. It is safe for concurrent use.
type reports struct {
	logger    logr.Logger
	onWarning func(config.Warning)
	record    func(config.Warning) // nil if the warnings are not recorded

	mu       sync.Mutex
	reported map[reportKey]struct{}
	counts   map[string]int // by check
}

// reportKey is what makes two warnings the same.
type reportKey struct {
	check         string
	kind          schema.GroupKind
	object        types.NamespacedName
	field, writer string
}

func newReports(logger logr.Logger, onWarning func(config.Warning)) reports {
	return reports{logger: logger, onWarning: onWarning, reported: map[reportKey]struct{}{}, counts: map[string]int{}}
}

// add reports a warning, unless the same one was reported before, or too many of its check were.
func (r *reports) add(w config.Warning) {
	first, last := r.claim(w)
	if !first {
		return
	}
	warnings.WithLabelValues(w.Check).Inc()
	if r.record != nil && w.Check != config.CheckHotLoops { // which controllers record themselves
		r.record(w)
	}
	switch {
	case r.onWarning != nil:
		r.call(w)
	default:
		r.logger.Error(nil, w.Message, "check", w.Check, "kind", w.GVK.GroupKind().String(),
			"object", klog.KRef(w.Object.Namespace, w.Object.Name), "field", w.Field, "writer", w.Writer, "docs", w.Docs())
		if last {
			r.logger.Info("No further warnings of this check are logged", "check", w.Check, "logged", maxReports)
		}
	}
}

// programPanic is a panic of a function of the program, which ends the process although checks are contained.
type programPanic struct{ value any }

// call calls the function of the program.
func (r *reports) call(w config.Warning) {
	defer func() {
		if p := recover(); p != nil {
			panic(programPanic{p})
		}
	}()
	r.onWarning(w)
}

// claim returns whether a warning is to be reported, and whether it is the last one of its check.
func (r *reports) claim(w config.Warning) (first, last bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	key := reportKey{w.Check, w.GVK.GroupKind(), w.Object, w.Field, w.Writer}
	if _, ok := r.reported[key]; ok || r.counts[w.Check] >= maxReports {
		return false, false
	}
	r.reported[key] = struct{}{}
	r.counts[w.Check]++
	return true, r.counts[w.Check] == maxReports
}
