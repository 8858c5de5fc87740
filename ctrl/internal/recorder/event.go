package recorder

import (
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record/util"
	"k8s.io/client-go/tools/reference"
)

// reference returns a reference to the object of an event. It logs errors, as recorders return
// none.
func (p *Provider) reference(obj runtime.Object, eventtype, reason string) (*corev1.ObjectReference, bool) {
	if !util.ValidateEventType(eventtype) {
		p.log.Error(nil, "Dropping an event: its type is neither Normal nor Warning", "type", eventtype, "reason", reason)
		return nil, false
	}
	ref, err := reference.GetReference(p.scheme, obj)
	if err != nil {
		p.log.Error(err, "Dropping an event: could not construct a reference to its object",
			"type", fmt.Sprintf("%T", obj), "reason", reason)
		return nil, false
	}
	return ref, true
}

// namespaceFor returns the namespace of an event of ref: the default namespace if ref is
// cluster-scoped.
func namespaceFor(ref *corev1.ObjectReference) string {
	if ref.Namespace == "" {
		return metav1.NamespaceDefault
	}
	return ref.Namespace
}

// lastName is the time in the name of the last event of this process, in nanoseconds.
var lastName atomic.Int64

// nameFor returns a unique name of an event of ref: it has the time, or the one that follows the last
// event's, as events at the same time are common with virtual time.
func nameFor(ref *corev1.ObjectReference) string {
	for {
		last := lastName.Load()
		next := max(time.Now().UnixNano(), last+1)
		if lastName.CompareAndSwap(last, next) {
			return util.GenerateEventName(ref.Name, next)
		}
	}
}

// outcome returns the error of a write if it may be retried, and otherwise logs it.
func (p *Provider) outcome(err error, ref *corev1.ObjectReference, reason string) error {
	var unsent *rest.RequestConstructionError
	switch {
	case err == nil:
		return nil
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return nil
	case apierrors.IsTooManyRequests(err), apierrors.IsServiceUnavailable(err), apierrors.IsServerTimeout(err),
		apierrors.IsTimeout(err), apierrors.IsInternalError(err):
		return err
	case apierrors.ReasonForError(err) == metav1.StatusReasonUnknown && !errors.As(err, &unsent):
		return err // the request has not reached the server
	}
	p.log.Error(err, "Dropping an event: the server rejected it",
		"reason", reason, "kind", ref.Kind, "namespace", ref.Namespace, "name", ref.Name)
	return nil
}
