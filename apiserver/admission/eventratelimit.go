package admission

import (
	"context"
	"fmt"
	"slices"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/errors"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/utils/lru"
)

// eventKeys returns the key of an event for each type of limit. Events with the same key share a limit.
//
//upstream:plugin/pkg/admission/eventratelimit.newLimitEnforcer
//upstream:plugin/pkg/admission/eventratelimit.getSourceAndObjectKey
var eventKeys = map[string]func(admission.Attributes) string{
	"Server":    func(admission.Attributes) string { return "" },
	"Namespace": admission.Attributes.GetNamespace,
	"User": func(a admission.Attributes) string {
		if a.GetUserInfo() == nil {
			return ""
		}
		return a.GetUserInfo().GetName()
	},
	"SourceAndObject": func(a admission.Attributes) string {
		event, ok := a.GetObject().(*corev1.Event)
		if !ok {
			return ""
		}
		about := event.InvolvedObject
		return event.Source.Component + event.Source.Host + about.Kind + about.Namespace + about.Name + string(about.UID) + about.APIVersion
	},
}

// eventLimitTypes are the types of limits in alphabetical order.
var eventLimitTypes = []string{"Namespace", "Server", "SourceAndObject", "User"}

// eventLimitConfiguration is the configuration of the plugin EventRateLimit.
type eventLimitConfiguration struct {
	Limits []eventLimit `json:"limits"`
}

// eventLimit limits the rate of events with the same key.
type eventLimit struct {
	Type string `json:"type"`
	// QPS is the number of events per second for each key, and Burst the maximum burst.
	QPS   int32 `json:"qps"`
	Burst int32 `json:"burst"`
	// CacheSize is the maximum number of keys; zero means 4096. The least recently used key is evicted.
	CacheSize int32 `json:"cacheSize,omitempty"`
}

// validate returns the errors in the configuration.
//
//upstream:plugin/pkg/admission/eventratelimit/apis/eventratelimit/validation.ValidateConfiguration
func (c *eventLimitConfiguration) validate() field.ErrorList {
	limits := field.NewPath("limits")
	if len(c.Limits) == 0 {
		return field.ErrorList{field.Invalid(limits, c.Limits, "must not be empty")}
	}
	var errs field.ErrorList
	for i, l := range c.Limits {
		at := limits.Index(i)
		if !slices.Contains(eventLimitTypes, l.Type) {
			errs = append(errs, field.NotSupported(at.Child("type"), l.Type, eventLimitTypes))
		}
		if l.Burst <= 0 {
			errs = append(errs, field.Invalid(at.Child("burst"), l.Burst, "must be positive"))
		}
		if l.QPS <= 0 {
			errs = append(errs, field.Invalid(at.Child("qps"), l.QPS, "must be positive"))
		}
		if l.Type != "Server" && l.CacheSize < 0 {
			errs = append(errs, field.Invalid(at.Child("cacheSize"), l.CacheSize, "must not be negative"))
		}
	}
	return errs
}

// eventRateLimit rejects events above a rate.
//
//upstream:plugin/pkg/admission/eventratelimit.Plugin
type eventRateLimit struct {
	*admission.Handler
	limits []*eventLimiter
}

var _ admission.ValidationInterface = eventRateLimit{}

func newEventRateLimit(_ Environment, data []byte) (admission.Interface, error) {
	var configuration eventLimitConfiguration
	if err := decodeConfiguration(data, "eventratelimit.admission.k8s.io", &configuration); err != nil {
		return nil, err
	}
	if errs := configuration.validate(); len(errs) > 0 {
		return nil, errs.ToAggregate()
	}
	p := eventRateLimit{Handler: admission.NewHandler(admission.Create, admission.Update)}
	for _, l := range configuration.Limits {
		size := int(l.CacheSize)
		if size == 0 {
			size = 4096
		}
		if l.Type == "Server" {
			size = 1
		}
		p.limits = append(p.limits, &eventLimiter{limit: l, key: eventKeys[l.Type], limiters: lru.New(size)})
	}
	return p, nil
}

// Validate implements [admission.ValidationInterface].
func (p eventRateLimit) Validate(_ context.Context, a admission.Attributes, _ admission.ObjectInterfaces) error {
	if a.GetKind().GroupKind() != corev1.SchemeGroupVersion.WithKind("Event").GroupKind() || a.IsDryRun() {
		return nil
	}
	var errs []error
	for _, l := range p.limits {
		if err := l.accept(a); err != nil {
			errs = append(errs, err)
		}
	}
	if len(errs) > 0 {
		return errors.NewTooManyRequestsError(utilerrors.NewAggregate(errs).Error())
	}
	return nil
}

// eventLimiter has a rate limiter for each key.
//
//upstream:plugin/pkg/admission/eventratelimit.limitEnforcer
type eventLimiter struct {
	limit eventLimit
	key   func(admission.Attributes) string

	mu       sync.Mutex
	limiters *lru.Cache
}

// accept returns an error if an event exceeds the limit of its key.
func (l *eventLimiter) accept(a admission.Attributes) error {
	key := l.key(a)
	if l.limiter(key).TryAccept() {
		return nil
	}
	return fmt.Errorf("limit reached on type %v for key %v", l.limit.Type, key)
}

func (l *eventLimiter) limiter(key string) flowcontrol.RateLimiter {
	l.mu.Lock()
	defer l.mu.Unlock()
	if known, ok := l.limiters.Get(key); ok {
		return known.(flowcontrol.RateLimiter)
	}
	added := flowcontrol.NewTokenBucketRateLimiter(float32(l.limit.QPS), int(l.limit.Burst))
	l.limiters.Add(key, added)
	return added
}
