package flowcontrol

import (
	"context"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/util/shufflesharding"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
	"flyball.dev/apiserver/kinds/check"
	"flyball.dev/apiserver/kinds/columns"
	"flyball.dev/apiserver/kinds/fieldrules"
)

// PriorityLevels describes the kind PriorityLevelConfiguration.
//
//upstream:pkg/registry/flowcontrol/prioritylevelconfiguration.priorityLevelConfigurationStrategy
//upstream:pkg/registry/flowcontrol/prioritylevelconfiguration.priorityLevelConfigurationStatusStrategy
func PriorityLevels() kinds.Kind {
	return kinds.Of[*flowcontrolv1.PriorityLevelConfiguration]{
		Type: &flowcontrolv1.PriorityLevelConfiguration{}, List: &flowcontrolv1.PriorityLevelConfigurationList{},
		Plural: "prioritylevelconfigurations", Cluster: true, Generation: true,
		Unenforced: unenforced,
		Name:       fieldrules.NameIsSubdomain,
		Default:    defaultPriorityLevel,
		Validate:   validatePriorityLevel,
		Status:     true,
		PrepareStatus: func(_ context.Context, p, old *flowcontrolv1.PriorityLevelConfiguration) {
			keepMetadata(&p.ObjectMeta, &old.ObjectMeta)
		},
		StatusReset: []string{"metadata"},
		ValidateStatus: func(p, _ *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
			return conditionTypes(p.Status.Conditions, func(c flowcontrolv1.PriorityLevelConfigurationCondition) string { return string(c.Type) })
		},
		Columns: []metav1.TableColumnDefinition{
			columns.Column("Type", "string", flowcontrolv1.PriorityLevelConfigurationSpec{}.SwaggerDoc()["type"]),
			columns.Column("NominalConcurrencyShares", "string", flowcontrolv1.LimitedPriorityLevelConfiguration{}.SwaggerDoc()["nominalConcurrencyShares"]),
			columns.Column("Queues", "string", flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()["queues"]),
			columns.Column("HandSize", "string", flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()["handSize"]),
			columns.Column("QueueLengthLimit", "string", flowcontrolv1.QueuingConfiguration{}.SwaggerDoc()["queueLengthLimit"]),
		},
		Row: priorityLevelRow,
	}
}

// Defaults of priority levels.
const (
	defaultShares      int32 = 30
	defaultHandSize    int32 = 8
	defaultQueues      int32 = 64
	defaultQueueLength int32 = 50
)

//upstream:pkg/apis/flowcontrol/v1.SetDefaults_LimitedPriorityLevelConfiguration
//upstream:pkg/apis/flowcontrol/v1.SetDefaults_ExemptPriorityLevelConfiguration
//upstream:pkg/apis/flowcontrol/v1.SetDefaults_QueuingConfiguration
func defaultPriorityLevel(p *flowcontrolv1.PriorityLevelConfiguration) {
	if e := p.Spec.Exempt; e != nil {
		fieldrules.DefaultPointer(&e.NominalConcurrencyShares, 0)
		fieldrules.DefaultPointer(&e.LendablePercent, 0)
	}
	l := p.Spec.Limited
	if l == nil {
		return
	}
	fieldrules.DefaultPointer(&l.NominalConcurrencyShares, defaultShares)
	fieldrules.DefaultPointer(&l.LendablePercent, 0)
	if q := l.LimitResponse.Queuing; q != nil {
		fieldrules.DefaultValue(&q.HandSize, defaultHandSize)
		fieldrules.DefaultValue(&q.Queues, defaultQueues)
		fieldrules.DefaultValue(&q.QueueLengthLimit, defaultQueueLength)
	}
}

// roundTripAnnotation is an annotation that only the conversion of v1beta3 may set.
const roundTripAnnotation = "flowcontrol.k8s.io/v1beta3-preserve-zero-concurrency-shares"

// validatePriorityLevel checks that a level has the configuration of its type, and no other.
//
//upstream:pkg/apis/flowcontrol/validation.ValidatePriorityLevelConfiguration
//upstream:pkg/apis/flowcontrol/validation.ValidatePriorityLevelConfigurationSpec
func validatePriorityLevel(p *flowcontrolv1.PriorityLevelConfiguration) (errs field.ErrorList) {
	object, s := check.Object(&errs), &p.Spec
	spec := object.Child("spec")
	kind, limits, exempt := spec.Child("type"), spec.Child("limited"), spec.Child("exempt")
	_, ok := p.Annotations[roundTripAnnotation]
	check.Forbid(object.Child("metadata").Child("annotations"), ok, "annotation '"+roundTripAnnotation+"' is forbidden")
	if (p.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt) != (s.Type == flowcontrolv1.PriorityLevelEnablementExempt) {
		kind.Invalid(s.Type, "must be 'Exempt' if and only if `name` is 'exempt'")
	}
	if s.Limited != nil {
		check.Forbid(limits, s.Type != flowcontrolv1.PriorityLevelEnablementLimited, "")
		limitResponse(limits.Child("limitResponse"), &s.Limited.LimitResponse)
	}
	check.Forbid(exempt, s.Exempt != nil && s.Type != flowcontrolv1.PriorityLevelEnablementExempt, "")
	switch s.Type {
	case flowcontrolv1.PriorityLevelEnablementExempt:
		if e := s.Exempt; e != nil {
			shares(exempt, e.NominalConcurrencyShares, e.LendablePercent)
		}
	case flowcontrolv1.PriorityLevelEnablementLimited:
		if s.Limited == nil {
			limits.Required("")
		} else {
			limited(limits, s.Limited)
		}
	default:
		check.OneOf(kind, s.Type, flowcontrolv1.PriorityLevelEnablementExempt, flowcontrolv1.PriorityLevelEnablementLimited)
	}
	mandatory(spec, p)
	return errs
}

// mandatory checks that the mandatory levels have their fixed spec, except for the shares of the level "exempt".
//
//upstream:pkg/apis/flowcontrol/validation.ValidateIfMandatoryPriorityLevelConfigurationObject
func mandatory(spec check.Field, p *flowcontrolv1.PriorityLevelConfiguration) {
	for _, m := range bootstrap.MandatoryPriorityLevelConfigurations {
		if m.Name != p.Name {
			continue
		}
		is, why := p.Spec, "spec of '%s' must equal the fixed value"
		if p.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt {
			is.Exempt, why = m.Spec.Exempt, "spec of '%s' except the 'spec.exempt' field must equal the fixed value"
		}
		if !equality.Semantic(m.Spec, is) {
			spec.Invalidf(p.Spec, why, p.Name)
		}
	}
}

//upstream:pkg/apis/flowcontrol/validation.ValidateExemptPriorityLevelConfiguration
func shares(in check.Field, n, lendable *int32) {
	if n != nil && *n < 0 {
		in.Child("nominalConcurrencyShares").Invalid(*n, "must be a non-negative integer")
	}
	if lendable != nil && (*lendable < 0 || *lendable > 100) {
		in.Child("lendablePercent").Invalid(*lendable, "must be between 0 and 100, inclusive")
	}
}

//upstream:pkg/apis/flowcontrol/validation.ValidateLimitedPriorityLevelConfiguration
//upstream:pkg/apis/flowcontrol/validation.ValidateLimitResponse
func limited(at check.Field, l *flowcontrolv1.LimitedPriorityLevelConfiguration) {
	shares(at, l.NominalConcurrencyShares, l.LendablePercent)
	if b := l.BorrowingLimitPercent; b != nil && *b < 0 {
		at.Child("borrowingLimitPercent").Invalid(*b, "if specified, must be a non-negative integer")
	}
	switch r, in := &l.LimitResponse, at.Child("limitResponse"); r.Type {
	case flowcontrolv1.LimitResponseTypeReject:
	case flowcontrolv1.LimitResponseTypeQueue:
		check.Optional(in.Child("queuing"), r.Queuing, queuing)
	default:
		check.OneOf(in.Child("type"), r.Type, flowcontrolv1.LimitResponseTypeQueue, flowcontrolv1.LimitResponseTypeReject)
	}
}

// limitResponse checks that a response has the queues of its type, and no others. kube-apiserver does so by generated code, for
// the configuration of any type.
func limitResponse(at check.Field, r *flowcontrolv1.LimitResponse) {
	queues := r.Type == flowcontrolv1.LimitResponseTypeQueue
	check.Required(at.Child("type"), r.Type)
	if queues && r.Queuing == nil {
		at.Child("queuing").Required("")
	}
	check.Forbid(at.Child("queuing"), !queues && r.Queuing != nil, "")
}

// maxQueues is the limit of the queues of a level.
const maxQueues = 10_000_000

// queuing checks the queues, and that the hash of a flow has enough bits to choose a hand of queues.
//
//upstream:pkg/apis/flowcontrol/validation.ValidatePriorityLevelQueuingConfiguration
func queuing(at check.Field, q flowcontrolv1.QueuingConfiguration) {
	if q.QueueLengthLimit <= 0 {
		at.Child("queueLengthLimit").Invalid(q.QueueLengthLimit, "must be positive")
	}
	switch queues := at.Child("queues"); {
	case q.Queues <= 0:
		queues.Invalid(q.Queues, "must be positive")
	case q.Queues > maxQueues:
		queues.Invalidf(q.Queues, "must not be greater than %d", maxQueues)
	}
	switch hand := at.Child("handSize"); {
	case q.HandSize <= 0:
		hand.Invalid(q.HandSize, "must be positive")
	case q.HandSize > q.Queues:
		hand.Invalidf(q.HandSize, "should not be greater than queues (%d)", q.Queues)
	case shufflesharding.RequiredEntropyBits(int(q.Queues), int(q.HandSize)) > shufflesharding.MaxHashBits:
		hand.Invalidf(q.HandSize, "required entropy bits of deckSize %d and handSize %d should not be greater than %d", q.Queues, q.HandSize, shufflesharding.MaxHashBits)
	}
}

//upstream:pkg/printers/internalversion.printPriorityLevelConfiguration
func priorityLevelRow(p *flowcontrolv1.PriorityLevelConfiguration) []any {
	var n, queues, hand, length any = columns.None, columns.None, columns.None, columns.None
	if l := p.Spec.Limited; l != nil {
		if l.NominalConcurrencyShares != nil {
			n = int64(*l.NominalConcurrencyShares)
		}
		if q := l.LimitResponse.Queuing; q != nil {
			queues, hand, length = int64(q.Queues), int64(q.HandSize), int64(q.QueueLengthLimit)
		}
	}
	return []any{string(p.Spec.Type), n, queues, hand, length}
}
