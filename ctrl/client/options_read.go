package client

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// GetOptions are the options of a get request.
type GetOptions struct {
	// Raw is sent to the server as it is. Caches may ignore it.
	Raw *metav1.GetOptions

	// UnsafeDisableDeepCopy lets a cache hand out its own object instead of a
	// copy. The caller must then not change anything that it refers to.
	UnsafeDisableDeepCopy *bool

	// DisableReadYourWritesConsistency leaves out the process's own writes that
	// the watch has not brought yet.
	DisableReadYourWritesConsistency bool
}

// ApplyToGet copies what is set into lo.
func (o *GetOptions) ApplyToGet(lo *GetOptions) {
	if o.Raw != nil {
		lo.Raw = o.Raw
	}
	if o.UnsafeDisableDeepCopy != nil {
		lo.UnsafeDisableDeepCopy = o.UnsafeDisableDeepCopy
	}
	if o.DisableReadYourWritesConsistency {
		lo.DisableReadYourWritesConsistency = true
	}
}

// AsGetOptions returns what is sent to the server: Raw, if it is set.
func (o *GetOptions) AsGetOptions() *metav1.GetOptions {
	if o == nil || o.Raw == nil {
		return &metav1.GetOptions{}
	}
	return o.Raw
}

// ApplyOptions applies opts in order and returns the receiver.
func (o *GetOptions) ApplyOptions(opts []GetOption) *GetOptions {
	for _, opt := range opts {
		opt.ApplyToGet(o)
	}
	return o
}

// ListOptions are the options of a list or watch request.
type ListOptions struct {
	// LabelSelector selects by labels. Everything if nil.
	LabelSelector labels.Selector
	// FieldSelector selects by fields. The server knows a few for each kind; a
	// cache knows those that were indexed. Everything if nil.
	FieldSelector fields.Selector

	// Namespace is where to look; all namespaces if empty.
	Namespace string

	// Limit is the number of objects in an answer; all if zero. A cache returns
	// the first ones it finds.
	Limit int64
	// Continue is the token from the last answer, to go on where it ended. The
	// server forgets tokens after some minutes and then answers "expired".
	// Caches do not support it.
	Continue string

	// UnsafeDisableDeepCopy lets a cache hand out its own objects instead of
	// copies. The caller must then not change anything that they refer to.
	UnsafeDisableDeepCopy *bool

	// DisableReadYourWritesConsistency leaves out the process's own writes that
	// the watch has not brought yet.
	DisableReadYourWritesConsistency bool

	// Raw is the base of what is sent to the server; the fields above override
	// it where they are set. Caches may ignore it.
	Raw *metav1.ListOptions
}

// ApplyToList copies what is set into lo.
func (o *ListOptions) ApplyToList(lo *ListOptions) {
	if o.LabelSelector != nil {
		lo.LabelSelector = o.LabelSelector
	}
	if o.FieldSelector != nil {
		lo.FieldSelector = o.FieldSelector
	}
	if o.Namespace != "" {
		lo.Namespace = o.Namespace
	}
	if o.Raw != nil {
		lo.Raw = o.Raw
	}
	if o.Limit > 0 {
		lo.Limit = o.Limit
	}
	if o.Continue != "" {
		lo.Continue = o.Continue
	}
	if o.UnsafeDisableDeepCopy != nil {
		lo.UnsafeDisableDeepCopy = o.UnsafeDisableDeepCopy
	}
	if o.DisableReadYourWritesConsistency {
		lo.DisableReadYourWritesConsistency = true
	}
}

// A selector that matches nothing has no spelling: written out it is empty, and
// the server would take it for one that matches everything. These contradictions
// say what is meant.
const (
	noLabels = "flyball.dev/none,!flyball.dev/none"
	noFields = "metadata.name="
)

// AsListOptions returns what is sent to the server. The result is the caller's.
func (o *ListOptions) AsListOptions() *metav1.ListOptions {
	out := &metav1.ListOptions{}
	if o == nil {
		return out
	}
	if o.Raw != nil {
		*out = *o.Raw
	}
	if sel := o.LabelSelector; sel != nil {
		out.LabelSelector = sel.String()
		if out.LabelSelector == "" && !sel.Empty() {
			out.LabelSelector = noLabels
		}
	}
	if sel := o.FieldSelector; sel != nil {
		out.FieldSelector = sel.String()
		if out.FieldSelector == "" && !sel.Empty() {
			out.FieldSelector = noFields
		}
	}
	// A watch has no pages.
	if !out.Watch {
		if o.Limit > 0 {
			out.Limit = o.Limit
		}
		if o.Continue != "" {
			out.Continue = o.Continue
		}
	}
	return out
}

// ApplyOptions applies opts in order and returns the receiver.
func (o *ListOptions) ApplyOptions(opts []ListOption) *ListOptions {
	for _, opt := range opts {
		opt.ApplyToList(o)
	}
	return o
}

// MatchingLabels selects objects that have all these labels with these values.
// It adds to a label selector that is there already. Invalid labels are not
// checked here; the server refuses them.
type MatchingLabels map[string]string

// ApplyToList adds to LabelSelector.
func (m MatchingLabels) ApplyToList(opts *ListOptions) {
	sel := labels.SelectorFromValidatedSet(labels.Set(m))
	if opts.LabelSelector == nil {
		opts.LabelSelector = sel
		return
	}
	reqs, _ := sel.Requirements()
	opts.LabelSelector = opts.LabelSelector.Add(reqs...)
}

// ApplyToDeleteAllOf adds to LabelSelector.
func (m MatchingLabels) ApplyToDeleteAllOf(opts *DeleteAllOfOptions) {
	m.ApplyToList(&opts.ListOptions)
}

// HasLabels selects objects that have all these labels, with any value. It adds
// to a label selector that is there already. No object has a label whose name is
// invalid, so with one of those it selects nothing.
type HasLabels []string

// ApplyToList adds to LabelSelector.
func (m HasLabels) ApplyToList(opts *ListOptions) {
	if opts.LabelSelector == nil {
		opts.LabelSelector = labels.NewSelector()
	}
	for _, label := range m {
		r, err := labels.NewRequirement(label, selection.Exists, nil)
		if err != nil {
			opts.LabelSelector = labels.Nothing()
			return
		}
		opts.LabelSelector = opts.LabelSelector.Add(*r)
	}
}

// ApplyToDeleteAllOf adds to LabelSelector.
func (m HasLabels) ApplyToDeleteAllOf(opts *DeleteAllOfOptions) {
	m.ApplyToList(&opts.ListOptions)
}

// MatchingLabelsSelector selects by a label selector, in place of any that is
// there. Without one it selects nothing.
type MatchingLabelsSelector struct {
	labels.Selector
}

// ApplyToList sets LabelSelector.
func (m MatchingLabelsSelector) ApplyToList(opts *ListOptions) {
	if m.Selector == nil {
		m.Selector = labels.Nothing()
	}
	opts.LabelSelector = m
}

// ApplyToDeleteAllOf sets LabelSelector.
func (m MatchingLabelsSelector) ApplyToDeleteAllOf(opts *DeleteAllOfOptions) {
	m.ApplyToList(&opts.ListOptions)
}

// MatchingFields selects objects whose fields have these values, in place of
// any field selector that is there.
type MatchingFields fields.Set

// ApplyToList sets FieldSelector.
func (m MatchingFields) ApplyToList(opts *ListOptions) {
	opts.FieldSelector = fields.Set(m).AsSelector()
}

// ApplyToDeleteAllOf sets FieldSelector.
func (m MatchingFields) ApplyToDeleteAllOf(opts *DeleteAllOfOptions) {
	m.ApplyToList(&opts.ListOptions)
}

// MatchingFieldsSelector selects by a field selector, in place of any that is
// there. Without one it selects nothing.
type MatchingFieldsSelector struct {
	fields.Selector
}

// ApplyToList sets FieldSelector.
func (m MatchingFieldsSelector) ApplyToList(opts *ListOptions) {
	if m.Selector == nil {
		m.Selector = fields.Nothing()
	}
	opts.FieldSelector = m
}

// ApplyToDeleteAllOf sets FieldSelector.
func (m MatchingFieldsSelector) ApplyToDeleteAllOf(opts *DeleteAllOfOptions) {
	m.ApplyToList(&opts.ListOptions)
}

// InNamespace looks in one namespace only.
type InNamespace string

// ApplyToList sets Namespace.
func (n InNamespace) ApplyToList(opts *ListOptions) { opts.Namespace = string(n) }

// ApplyToDeleteAllOf sets Namespace.
func (n InNamespace) ApplyToDeleteAllOf(opts *DeleteAllOfOptions) { n.ApplyToList(&opts.ListOptions) }

// AsSelector returns the namespace as a field selector.
func (n InNamespace) AsSelector() fields.Selector {
	return fields.SelectorFromSet(fields.Set{"metadata.namespace": string(n)})
}

// Limit sets the number of objects in an answer. The server cannot limit the
// deletion of a collection.
type Limit int64

// ApplyToList sets Limit.
func (l Limit) ApplyToList(opts *ListOptions) { opts.Limit = int64(l) }

// Continue goes on where a limited list ended.
type Continue string

// ApplyToList sets Continue.
func (c Continue) ApplyToList(opts *ListOptions) { opts.Continue = string(c) }

// UnsafeDisableDeepCopy lets a cache hand out its own objects, which the caller
// must not change. It has no effect on requests to the server.
const UnsafeDisableDeepCopy = UnsafeDisableDeepCopyOption(true)

// UnsafeDisableDeepCopyOption says whether a cache may hand out its own objects;
// see UnsafeDisableDeepCopy.
type UnsafeDisableDeepCopyOption bool

// ApplyToGet sets UnsafeDisableDeepCopy.
func (d UnsafeDisableDeepCopyOption) ApplyToGet(opts *GetOptions) {
	opts.UnsafeDisableDeepCopy = new(bool(d))
}

// ApplyToList sets UnsafeDisableDeepCopy.
func (d UnsafeDisableDeepCopyOption) ApplyToList(opts *ListOptions) {
	opts.UnsafeDisableDeepCopy = new(bool(d))
}
