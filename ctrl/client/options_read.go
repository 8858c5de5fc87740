package client

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
)

// GetOptions are the options of a get request.
type GetOptions struct {
	// Raw is sent unchanged. Caches may ignore it.
	Raw *metav1.GetOptions

	// UnsafeDisableDeepCopy makes a cache return its own object instead of a copy. The caller must
	// not modify it.
	UnsafeDisableDeepCopy *bool

	// DisableReadYourWritesConsistency excludes the process's own writes that the watch has not
	// delivered yet.
	DisableReadYourWritesConsistency bool
}

// ApplyToGet copies the options that are set into lo.
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

// AsGetOptions returns the options that are sent: Raw, if it is set.
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
	// FieldSelector selects by fields. The server supports a few for each kind; a cache supports
	// those that are indexed. Everything if nil.
	FieldSelector fields.Selector

	// Namespace restricts the list to a namespace; all namespaces if empty.
	Namespace string

	// Limit is the maximum number of objects in a response; all if zero. A cache returns the first
	// that it finds.
	Limit int64
	// Continue is the continue token of the previous response. Tokens expire after some minutes.
	// Caches do not support it.
	Continue string

	// UnsafeDisableDeepCopy makes a cache return its own objects instead of copies. The caller must
	// not modify them.
	UnsafeDisableDeepCopy *bool

	// DisableReadYourWritesConsistency excludes the process's own writes that the watch has not
	// delivered yet.
	DisableReadYourWritesConsistency bool

	// Raw is the base of the options that are sent; the fields above override it if they are set.
	// Caches may ignore it.
	Raw *metav1.ListOptions
}

// ApplyToList copies the options that are set into lo.
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

// A selector that matches nothing has an empty string form, which the server would parse as one
// that matches everything. These contradictions match nothing.
const (
	noLabels = "flyball.dev/none,!flyball.dev/none"
	noFields = "metadata.name="
)

// AsListOptions returns the options that are sent. The caller owns the result.
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

// MatchingLabels selects objects that have all these labels with these values. It is added to a
// label selector that is set already. Labels are not validated here; the server rejects invalid
// ones.
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

// HasLabels selects objects that have all these labels, with any value. It is added to a label
// selector that is set already. With an invalid name it selects nothing, as no object has such a
// label.
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

// MatchingLabelsSelector sets the label selector and replaces one that is set already. A nil
// Selector selects nothing.
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

// MatchingFields selects objects by the values of their fields. It replaces a field selector that
// is set already.
type MatchingFields fields.Set

// ApplyToList sets FieldSelector.
func (m MatchingFields) ApplyToList(opts *ListOptions) {
	opts.FieldSelector = fields.Set(m).AsSelector()
}

// ApplyToDeleteAllOf sets FieldSelector.
func (m MatchingFields) ApplyToDeleteAllOf(opts *DeleteAllOfOptions) {
	m.ApplyToList(&opts.ListOptions)
}

// MatchingFieldsSelector sets the field selector and replaces one that is set already. A nil
// Selector selects nothing.
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

// InNamespace restricts a list to one namespace.
type InNamespace string

// ApplyToList sets Namespace.
func (n InNamespace) ApplyToList(opts *ListOptions) { opts.Namespace = string(n) }

// ApplyToDeleteAllOf sets Namespace.
func (n InNamespace) ApplyToDeleteAllOf(opts *DeleteAllOfOptions) { n.ApplyToList(&opts.ListOptions) }

// AsSelector returns the namespace as a field selector.
func (n InNamespace) AsSelector() fields.Selector {
	return fields.SelectorFromSet(fields.Set{"metadata.namespace": string(n)})
}

// Limit sets the maximum number of objects in a response. The server cannot limit the deletion of a
// collection.
type Limit int64

// ApplyToList sets Limit.
func (l Limit) ApplyToList(opts *ListOptions) { opts.Limit = int64(l) }

// Continue sets the continue token of a limited list.
type Continue string

// ApplyToList sets Continue.
func (c Continue) ApplyToList(opts *ListOptions) { opts.Continue = string(c) }

// UnsafeDisableDeepCopy makes a cache return its own objects, which the caller must not modify. It
// has no effect on requests to the server.
const UnsafeDisableDeepCopy = UnsafeDisableDeepCopyOption(true)

// UnsafeDisableDeepCopyOption is the type of UnsafeDisableDeepCopy.
type UnsafeDisableDeepCopyOption bool

// ApplyToGet sets UnsafeDisableDeepCopy.
func (d UnsafeDisableDeepCopyOption) ApplyToGet(opts *GetOptions) {
	opts.UnsafeDisableDeepCopy = new(bool(d))
}

// ApplyToList sets UnsafeDisableDeepCopy.
func (d UnsafeDisableDeepCopyOption) ApplyToList(opts *ListOptions) {
	opts.UnsafeDisableDeepCopy = new(bool(d))
}
