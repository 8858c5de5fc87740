package flowcontrol

import (
	"context"
	"fmt"

	flowcontrolv1 "k8s.io/api/flowcontrol/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apiserver/pkg/apis/flowcontrol/bootstrap"
	"k8s.io/apiserver/pkg/util/shufflesharding"

	"flyball.dev/apiserver/equality"
	"flyball.dev/apiserver/kinds"
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
			return conditionTypes(len(p.Status.Conditions), func(i int) string { return string(p.Status.Conditions[i].Type) })
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
func validatePriorityLevel(p *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	var errs field.ErrorList
	if _, ok := p.Annotations[roundTripAnnotation]; ok {
		errs = append(errs, field.Forbidden(fieldrules.Metadata.ChildField("annotations"), fmt.Sprintf("annotation '%s' is forbidden", roundTripAnnotation)))
	}
	s := &p.Spec
	if (p.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt) != (s.Type == flowcontrolv1.PriorityLevelEnablementExempt) {
		errs = append(errs, field.Invalid(fieldrules.Spec.ChildField("type"), s.Type, "must be 'Exempt' if and only if `name` is 'exempt'"))
	}
	if s.Limited != nil {
		if s.Type != flowcontrolv1.PriorityLevelEnablementLimited {
			errs = append(errs, field.Forbidden(fieldrules.Spec.ChildField("limited"), ""))
		}
		errs = append(errs, limitResponse(&s.Limited.LimitResponse)...)
	}
	if s.Exempt != nil && s.Type != flowcontrolv1.PriorityLevelEnablementExempt {
		errs = append(errs, field.Forbidden(fieldrules.Spec.ChildField("exempt"), ""))
	}
	switch s.Type {
	case flowcontrolv1.PriorityLevelEnablementExempt:
		if e := s.Exempt; e != nil {
			at := fieldrules.Spec.Child("exempt")
			errs = append(errs, shares(e.NominalConcurrencyShares, e.LendablePercent, &at)...)
		}
	case flowcontrolv1.PriorityLevelEnablementLimited:
		if s.Limited == nil {
			errs = append(errs, field.Required(fieldrules.Spec.ChildField("limited"), ""))
		} else {
			errs = append(errs, limited(s.Limited)...)
		}
	default:
		errs = append(errs, fieldrules.OneOf(s.Type, &fieldrules.Spec, "type", flowcontrolv1.PriorityLevelEnablementExempt, flowcontrolv1.PriorityLevelEnablementLimited)...)
	}
	return append(errs, mandatory(p)...)
}

// mandatory checks that the mandatory levels have their fixed spec, except for the shares of the level "exempt".
//
//upstream:pkg/apis/flowcontrol/validation.ValidateIfMandatoryPriorityLevelConfigurationObject
func mandatory(p *flowcontrolv1.PriorityLevelConfiguration) field.ErrorList {
	for _, m := range bootstrap.MandatoryPriorityLevelConfigurations {
		if m.Name != p.Name {
			continue
		}
		is, why := p.Spec, "spec of '%s' must equal the fixed value"
		if p.Name == flowcontrolv1.PriorityLevelConfigurationNameExempt {
			is.Exempt, why = m.Spec.Exempt, "spec of '%s' except the 'spec.exempt' field must equal the fixed value"
		}
		if !equality.Semantic(m.Spec, is) {
			return field.ErrorList{field.Invalid(fieldrules.Spec.Field(), p.Spec, fmt.Sprintf(why, p.Name))}
		}
	}
	return nil
}

//upstream:pkg/apis/flowcontrol/validation.ValidateExemptPriorityLevelConfiguration
func shares(n, lendable *int32, w *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	if n != nil && *n < 0 {
		errs = append(errs, field.Invalid(w.ChildField("nominalConcurrencyShares"), *n, "must be a non-negative integer"))
	}
	if lendable != nil && (*lendable < 0 || *lendable > 100) {
		errs = append(errs, field.Invalid(w.ChildField("lendablePercent"), *lendable, "must be between 0 and 100, inclusive"))
	}
	return errs
}

//upstream:pkg/apis/flowcontrol/validation.ValidateLimitedPriorityLevelConfiguration
//upstream:pkg/apis/flowcontrol/validation.ValidateLimitResponse
func limited(l *flowcontrolv1.LimitedPriorityLevelConfiguration) field.ErrorList {
	at := fieldrules.Spec.Child("limited")
	errs := shares(l.NominalConcurrencyShares, l.LendablePercent, &at)
	if b := l.BorrowingLimitPercent; b != nil && *b < 0 {
		errs = append(errs, field.Invalid(at.ChildField("borrowingLimitPercent"), *b, "if specified, must be a non-negative integer"))
	}
	in := at.Child("limitResponse")
	switch r := &l.LimitResponse; r.Type {
	case flowcontrolv1.LimitResponseTypeReject:
	case flowcontrolv1.LimitResponseTypeQueue:
		if r.Queuing != nil {
			of := in.Child("queuing")
			errs = append(errs, queuing(r.Queuing, &of)...)
		}
	default:
		errs = append(errs, fieldrules.OneOf(r.Type, &in, "type", flowcontrolv1.LimitResponseTypeQueue, flowcontrolv1.LimitResponseTypeReject)...)
	}
	return errs
}

// limitResponse checks that a response has the queues of its type, and no others. kube-apiserver does so by generated code, for
// the configuration of any type.
func limitResponse(r *flowcontrolv1.LimitResponse) field.ErrorList {
	limited := fieldrules.Spec.Child("limited")
	at := limited.Child("limitResponse")
	errs := fieldrules.Required(r.Type, &at, "type")
	switch queues := r.Type == flowcontrolv1.LimitResponseTypeQueue; {
	case queues && r.Queuing == nil:
		errs = append(errs, field.Required(at.ChildField("queuing"), ""))
	case !queues && r.Queuing != nil:
		errs = append(errs, field.Forbidden(at.ChildField("queuing"), ""))
	}
	return errs
}

// maxQueues is the limit of the queues of a level.
const maxQueues = 10_000_000

// queuing checks the queues, and that the hash of a flow has enough bits to choose a hand of queues.
//
//upstream:pkg/apis/flowcontrol/validation.ValidatePriorityLevelQueuingConfiguration
func queuing(q *flowcontrolv1.QueuingConfiguration, w *fieldrules.Path) field.ErrorList {
	var errs field.ErrorList
	refuse := func(name string, value int32, why string) {
		errs = append(errs, field.Invalid(w.ChildField(name), value, why))
	}
	if q.QueueLengthLimit <= 0 {
		refuse("queueLengthLimit", q.QueueLengthLimit, "must be positive")
	}
	switch {
	case q.Queues <= 0:
		refuse("queues", q.Queues, "must be positive")
	case q.Queues > maxQueues:
		refuse("queues", q.Queues, fmt.Sprintf("must not be greater than %d", maxQueues))
	}
	switch {
	case q.HandSize <= 0:
		refuse("handSize", q.HandSize, "must be positive")
	case q.HandSize > q.Queues:
		refuse("handSize", q.HandSize, fmt.Sprintf("should not be greater than queues (%d)", q.Queues))
	case shufflesharding.RequiredEntropyBits(int(q.Queues), int(q.HandSize)) > shufflesharding.MaxHashBits:
		refuse("handSize", q.HandSize, fmt.Sprintf("required entropy bits of deckSize %d and handSize %d should not be greater than %d", q.Queues, q.HandSize, shufflesharding.MaxHashBits))
	}
	return errs
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
