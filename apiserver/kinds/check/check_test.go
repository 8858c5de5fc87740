package check

import (
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/api/validate/content"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

type policy string

// TestErrors checks the messages of the reports and the rules, and their order.
func TestErrors(t *testing.T) {
	var errs field.ErrorList
	object := Object(&errs)
	spec := object.Child("spec")
	items := spec.Child("items")
	NonNegative(spec.Child("count"), new(int32(-1)))
	OneOf(spec.Child("missing"), policy(""), "B", "A")
	OneOf(spec.Child("policy"), policy("C"), "B", "A")
	OptionalOneOf(spec.Child("optional"), new(policy("")), "B", "A")
	Immutable(spec.Child("fixed"), policy("new"), "old")
	ImmutableStruct(spec.Child("struct"), &struct {
		Size int `json:"size"`
	}{1}, nil)
	items.TooMany(3, 2)
	items.Index(1).Duplicate("x")
	items.Index(2).Child("name").TooLong(5)
	object.Child("metadata").Child("labels").Key("a/b").Invalidf(7, "not %d", 8)
	object.Invalid("all", "wrong")
	spec.Child("required").Required("sometimes")
	spec.Child("manual").NotSupported(true, "false")
	spec.Child("forbidden").Forbidden("here")
	spec.Child("reference").NotFound("x")
	Forbid(spec.Child("set"), true, "there")
	Forbid(spec.Child("unset"), false, "there")
	var invalid field.ErrorList
	Optional(spec.Child("optionalPort").Into(&invalid), new(int32(0)), Port)
	spec.Report(invalid...)
	if !Fails(func(f Field) { Port(f, 0) }) || Fails(func(f Field) { Port(f, 1) }) {
		t.Error("Fails")
	}
	Required(spec.Child("name"), policy(""))
	Positive(spec.Child("size"), int32(0))
	Port(spec.Child("port"), 65536)
	PortOrName(spec.Child("portOrName"), intstr.FromInt32(0))
	DNSLabel(spec.Child("label"), "")
	Valid(spec.Child("path"), "a/b", content.IsPathSegmentName)
	Messages(spec.Child("messages"), 1, []string{"a", "b"})
	union := Union{{"none", false}, {"one", true}, {"two", true}}
	union.ForbidOthers(spec, "besides "+union.First())
	Annotations(spec.Child("annotations"), map[string]string{"a": strings.Repeat("x", 1<<18)})
	TemplateMetadata(spec.Child("metadata"), metav1.ObjectMeta{Name: "x"})
	DriverName(spec.Child("driver"), "")
	SignerName(spec.Child("signer"), "")
	var got []string
	for _, err := range errs {
		got = append(got, err.Error())
	}
	want := []string{
		"spec.count: Invalid value: -1: must be greater than or equal to 0",
		"spec.missing: Required value",
		`spec.policy: Unsupported value: "C": supported values: "B", "A"`,
		`spec.optional: Unsupported value: "": supported values: "B", "A"`,
		`spec.fixed: Invalid value: "new": field is immutable`,
		`spec.struct: Invalid value: {"Size":1}: field is immutable`,
		"spec.items: Too many: 3: must have at most 2 items",
		`spec.items[1]: Duplicate value: "x"`,
		"spec.items[2].name: Too long: may not be more than 5 bytes",
		"metadata.labels[a/b]: Invalid value: 7: not 8",
		`<nil>: Invalid value: "all": wrong`,
		"spec.required: Required value: sometimes",
		`spec.manual: Unsupported value: true: supported values: "false"`,
		"spec.forbidden: Forbidden: here",
		`spec.reference: Not found: "x"`,
		"spec.set: Forbidden: there",
		"spec.optionalPort: Invalid value: 0: must be between 1 and 65535, inclusive",
		"spec.name: Required value",
		"spec.size: Invalid value: 0: must be greater than zero",
		"spec.port: Invalid value: 65536: must be between 1 and 65535, inclusive",
		"spec.portOrName: Invalid value: 0: must be between 1 and 65535, inclusive",
		"spec.label: Required value",
		`spec.path: Invalid value: "a/b": may not contain '/'`,
		"spec.messages: Invalid value: 1: a",
		"spec.messages: Invalid value: 1: b",
		"spec.two: Forbidden: besides one",
		"spec.annotations: Too long: may not be more than 262144 bytes",
		"spec.metadata.name: Forbidden: cannot be set",
		"spec.driver: Required value",
		"spec.signer: Required value",
	}
	if !slices.Equal(got, want) {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestValid checks that valid values have no errors, and that fields of valid values allocate nothing.
func TestValid(t *testing.T) {
	names := []string{"a", "b"}
	allocations := testing.AllocsPerRun(100, func() {
		var errs field.ErrorList
		spec := Object(&errs).Child("spec")
		NonNegative(spec.Child("count"), new(int64(0)))
		NonNegative(spec.Child("absent"), (*int32)(nil))
		OneOf(spec.Child("policy"), policy("B"), "B", "A")
		OptionalOneOf(spec.Child("optional"), (*policy)(nil), "B", "A")
		Immutable(spec.Child("fixed"), &names[0], &names[0])
		Required(spec.Child("name"), names[0])
		Optional(spec.Child("optionalLabel"), &names[0], DNSLabel)
		Optional(spec.Child("absentLabel"), nil, DNSLabel)
		IfSet(spec.Child("label"), "", DNSLabel)
		Positive(spec.Child("size"), int64(1))
		Port(spec.Child("port"), 80)
		PortOrName(spec.Child("portOrName"), intstr.FromInt32(80))
		DNSLabel(spec.Child("label"), names[0])
		DNSName(spec.Child("dnsName"), names[0])
		QualifiedName(spec.Child("qualified"), policy("a.b/c"))
		LabelName(spec.Child("key"), "a.b/c")
		Labels(spec.Child("labels"), nil)
		LabelSelector(spec.Child("selector"), nil)
		Valid(spec.Child("path"), names[0], content.IsPathSegmentName)
		Messages(spec.Child("messages"), names[0], nil)
		Union{{"none", false}, {"one", true}}.ForbidOthers(spec, "")
		Annotations(spec.Child("annotations"), nil)
		for i := range names {
			checkName(spec.Child("items").Index(i).Key("x"), names[i])
		}
		if len(errs) > 0 {
			t.Error(errs)
		}
	})
	if allocations > 0 {
		t.Errorf("%v allocations", allocations)
	}
}

// checkName is not inlined, as most checks of an item.
//
//go:noinline
func checkName(at Field, name string) {
	if name == "" {
		at.Child("name").Required("")
	}
}
