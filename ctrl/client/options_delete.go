package client

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// DeleteOptions are the options of a delete request.
type DeleteOptions struct {
	// GracePeriodSeconds is the time for graceful termination. Zero deletes at once; the default of
	// the kind if nil.
	GracePeriodSeconds *int64

	// Preconditions must hold, or the delete fails with a conflict.
	Preconditions *metav1.Preconditions

	// PropagationPolicy is what happens to the dependents of the object: "Background" (deleted
	// afterwards), "Foreground" (deleted first) or "Orphan" (not deleted). The default of the kind
	// if nil.
	PropagationPolicy *metav1.DeletionPropagation

	// DisableReadYourWritesConsistency excludes this delete from cached reads until the watch
	// delivers it.
	DisableReadYourWritesConsistency bool

	// Raw is the base of the options that are sent; the other fields override it if they are set.
	Raw *metav1.DeleteOptions

	// DryRun is empty or "All": process the request without storing the result.
	DryRun []string
}

// AsDeleteOptions returns the options that are sent. The caller owns the result.
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

// ApplyToDelete copies the options that are set into do.
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

// GracePeriodSeconds sets the time for graceful termination, in seconds.
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

// PropagationPolicy sets what happens to the dependents of a deleted object; see DeleteOptions.
type PropagationPolicy metav1.DeletionPropagation

// ApplyToDelete sets PropagationPolicy.
func (p PropagationPolicy) ApplyToDelete(opts *DeleteOptions) {
	opts.PropagationPolicy = new(metav1.DeletionPropagation(p))
}

// ApplyToDeleteAllOf sets PropagationPolicy.
func (p PropagationPolicy) ApplyToDeleteAllOf(opts *DeleteAllOfOptions) {
	p.ApplyToDelete(&opts.DeleteOptions)
}

// DeleteAllOfOptions are the options of deleting a collection.
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

// ApplyToDeleteAllOf copies the options that are set into do.
func (o *DeleteAllOfOptions) ApplyToDeleteAllOf(do *DeleteAllOfOptions) {
	o.ApplyToList(&do.ListOptions)
	o.ApplyToDelete(&do.DeleteOptions)
}
