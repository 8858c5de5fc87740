package client

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DeleteOptions are the options of a delete request.
type DeleteOptions struct {
	// GracePeriodSeconds is how long the object has to wind down. Zero deletes
	// at once; the kind's own default if nil.
	GracePeriodSeconds *int64

	// Preconditions must hold, or the delete fails with a conflict.
	Preconditions *metav1.Preconditions

	// PropagationPolicy is what becomes of the objects that this one owns:
	// "Background" (collected afterwards), "Foreground" (collected first) or
	// "Orphan" (kept). The kind's own default if nil.
	PropagationPolicy *metav1.DeletionPropagation

	// DisableReadYourWritesConsistency keeps this delete from showing in cached
	// reads before the watch brings it.
	DisableReadYourWritesConsistency bool

	// Raw is the base of what is sent; the fields above and below override it
	// where they are set.
	Raw *metav1.DeleteOptions

	// DryRun is empty, or holds "All": run everything but the storage.
	DryRun []string
}

// AsDeleteOptions returns what is sent to the server. The result is the
// caller's.
func (o *DeleteOptions) AsDeleteOptions() *metav1.DeleteOptions {
	out := &metav1.DeleteOptions{}
	if o == nil {
		return out
	}
	if o.Raw != nil {
		*out = *o.Raw
	}
	if o.GracePeriodSeconds != nil {
		out.GracePeriodSeconds = o.GracePeriodSeconds
	}
	if o.Preconditions != nil {
		out.Preconditions = o.Preconditions
	}
	if o.PropagationPolicy != nil {
		out.PropagationPolicy = o.PropagationPolicy
	}
	if o.DryRun != nil {
		out.DryRun = o.DryRun
	}
	return out
}

// ApplyOptions applies opts in order and returns the receiver.
func (o *DeleteOptions) ApplyOptions(opts []DeleteOption) *DeleteOptions {
	for _, opt := range opts {
		opt.ApplyToDelete(o)
	}
	return o
}

// ApplyToDelete copies what is set into do.
func (o *DeleteOptions) ApplyToDelete(do *DeleteOptions) {
	if o.GracePeriodSeconds != nil {
		do.GracePeriodSeconds = o.GracePeriodSeconds
	}
	if o.Preconditions != nil {
		do.Preconditions = o.Preconditions
	}
	if o.PropagationPolicy != nil {
		do.PropagationPolicy = o.PropagationPolicy
	}
	if o.DisableReadYourWritesConsistency {
		do.DisableReadYourWritesConsistency = true
	}
	if o.Raw != nil {
		do.Raw = o.Raw
	}
	if o.DryRun != nil {
		do.DryRun = o.DryRun
	}
}

// GracePeriodSeconds sets how many seconds the object has to wind down.
type GracePeriodSeconds int64

// ApplyToDelete sets GracePeriodSeconds.
func (s GracePeriodSeconds) ApplyToDelete(opts *DeleteOptions) {
	opts.GracePeriodSeconds = new(int64(s))
}

// ApplyToDeleteAllOf sets GracePeriodSeconds.
func (s GracePeriodSeconds) ApplyToDeleteAllOf(opts *DeleteAllOfOptions) {
	s.ApplyToDelete(&opts.DeleteOptions)
}

// Preconditions makes a delete fail with a conflict unless the object has the
// given UID and resource version.
type Preconditions metav1.Preconditions

// ApplyToDelete sets Preconditions.
func (p Preconditions) ApplyToDelete(opts *DeleteOptions) {
	opts.Preconditions = new(metav1.Preconditions(p))
}

// ApplyToDeleteAllOf sets Preconditions.
func (p Preconditions) ApplyToDeleteAllOf(opts *DeleteAllOfOptions) {
	p.ApplyToDelete(&opts.DeleteOptions)
}

// PropagationPolicy sets what becomes of the objects that a deleted one owns;
// see DeleteOptions.
type PropagationPolicy metav1.DeletionPropagation

// ApplyToDelete sets PropagationPolicy.
func (p PropagationPolicy) ApplyToDelete(opts *DeleteOptions) {
	opts.PropagationPolicy = new(metav1.DeletionPropagation(p))
}

// ApplyToDeleteAllOf sets PropagationPolicy.
func (p PropagationPolicy) ApplyToDeleteAllOf(opts *DeleteAllOfOptions) {
	p.ApplyToDelete(&opts.DeleteOptions)
}

// DeleteAllOfOptions are the options of deleting a collection: which objects,
// and how.
type DeleteAllOfOptions struct {
	ListOptions
	DeleteOptions
}

// ApplyOptions applies opts in order and returns the receiver.
func (o *DeleteAllOfOptions) ApplyOptions(opts []DeleteAllOfOption) *DeleteAllOfOptions {
	for _, opt := range opts {
		opt.ApplyToDeleteAllOf(o)
	}
	return o
}

// ApplyToDeleteAllOf copies what is set into do.
func (o *DeleteAllOfOptions) ApplyToDeleteAllOf(do *DeleteAllOfOptions) {
	o.ApplyToList(&do.ListOptions)
	o.ApplyToDelete(&do.DeleteOptions)
}
