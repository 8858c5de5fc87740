package v1

import (
	corev1 "k8s.io/api/core/v1"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// Numbers have the markers of numbers.
type Numbers struct {
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=10
	// +kubebuilder:validation:ExclusiveMinimum=true
	// +kubebuilder:validation:ExclusiveMaximum=true
	// +kubebuilder:validation:MultipleOf=2
	// +kubebuilder:default=4
	// +kubebuilder:example=6
	// +kubebuilder:title="An integer"
	Integer int32 `json:"integer"`
	// +k8s:minimum=1
	// +k8s:maximum=9007199254740993
	// +default=3
	Long int64 `json:"long"`
	// +kubebuilder:validation:Enum=1;2;3
	Chosen int `json:"chosen"`
	// +kubebuilder:validation:items:Minimum=1
	// +kubebuilder:validation:items:Maximum=10
	// +kubebuilder:validation:items:ExclusiveMinimum=true
	// +kubebuilder:validation:items:ExclusiveMaximum=true
	// +kubebuilder:validation:items:MultipleOf=2
	// +kubebuilder:validation:MinItems=1
	// +kubebuilder:validation:MaxItems=5
	// +kubebuilder:validation:UniqueItems=true
	Several []int32 `json:"several"`
	// +kubebuilder:validation:items:Enum=1;2;3
	// +k8s:maxItems=3
	SeveralChosen []int          `json:"severalChosen"`
	Limited       Limited        `json:"limited"`
	LimitedList   LimitedNumbers `json:"limitedList"`
}

// Limited is a number with limits.
// +kubebuilder:validation:Minimum=1
// +kubebuilder:validation:Maximum=10
// +kubebuilder:validation:ExclusiveMinimum=false
// +kubebuilder:validation:ExclusiveMaximum=true
// +kubebuilder:validation:MultipleOf=3
// +kubebuilder:title=Limited
type Limited int

// LimitedNumbers are numbers with limits.
// +kubebuilder:validation:MinItems=1
// +kubebuilder:validation:MaxItems=4
// +kubebuilder:validation:UniqueItems=false
// +kubebuilder:validation:items:Minimum=1
// +kubebuilder:validation:items:Maximum=10
// +kubebuilder:validation:items:ExclusiveMinimum=true
// +kubebuilder:validation:items:ExclusiveMaximum=true
// +kubebuilder:validation:items:MultipleOf=2
// +kubebuilder:validation:items:Enum=2;4
// +listType=atomic
type LimitedNumbers []int32

// Strings have the markers of strings.
type Strings struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=63
	// +kubebuilder:validation:Pattern=`^[a-z]+("|\\)?$`
	// +kubebuilder:default:="it's a \"default\""
	Text string `json:"text"`
	// +kubebuilder:validation:Format=date-time
	// +kubebuilder:externalDocs:url="https://example.com",description="More"
	// +nullable
	At *string `json:"at"`
	// +kubebuilder:validation:Enum=a;"b c";d-e
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="is immutable",reason=FieldValueForbidden,optionalOldSelf=false
	Choice string `json:"choice,omitempty"`
	// +k8s:immutable
	// +k8s:required
	Fixed string `json:"fixed,omitempty"`
	// +kubebuilder:validation:items:MinLength=1
	// +kubebuilder:validation:items:MaxLength=9
	// +kubebuilder:validation:items:Pattern=^x
	// +kubebuilder:validation:items:Format=hostname
	// +kubebuilder:validation:items:XValidation:rule="self != 'y'",messageExpression="'not ' + self"
	// +listType=set
	Several []string `json:"several,omitempty"`
	Name    Name     `json:"name,omitempty"`
	Names   Names    `json:"names,omitempty"`
	Mode    Mode     `json:"mode,omitempty"`
	Mode2   Mode2    `json:"mode2,omitempty"`
}

// Name is a name.
// +kubebuilder:validation:MinLength=1
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:Pattern=^[a-z]+$
// +kubebuilder:validation:Format=hostname
// +kubebuilder:validation:Type=string
type Name string

// Names are names.
// +kubebuilder:validation:items:MinLength=1
// +kubebuilder:validation:items:MaxLength=9
// +kubebuilder:validation:items:Pattern=^x
// +kubebuilder:validation:items:Format=hostname
// +kubebuilder:validation:items:XValidation:rule="self != 'y'"
// +listType=set
type Names []string

// Mode is one of several.
// +kubebuilder:validation:Enum=On;Off
type Mode string

// Mode2 is one of several, too.
// +k8s:enum
type Mode2 string

// The values of Mode2.
const (
	Mode2On  Mode2 = "On"
	Mode2Off Mode2 = "Off"
)

// Objects have the markers of objects, lists and maps.
type Objects struct {
	// +kubebuilder:validation:MinProperties=1
	// +kubebuilder:validation:MaxProperties=3
	// +mapType=atomic
	Labels map[string]string `json:"labels,omitempty"`
	// +mapType=granular
	Granular map[string]Item `json:"granular,omitempty"`
	// +listType=map
	// +listMapKey=name
	// +listMapKey=kind
	// +patchMergeKey=name
	Items []Item `json:"items,omitempty"`
	// +k8s:listType=map
	// +k8s:listMapKey=name
	// +k8s:optional
	MoreItems []Item `json:"moreItems"`
	// +structType=atomic
	Atomic Item `json:"atomic,omitempty"`
	// +kubebuilder:validation:EmbeddedResource
	// +kubebuilder:pruning:PreserveUnknownFields
	Embedded runtime.RawExtension `json:"embedded,omitempty"`
	// +kubebuilder:validation:XEmbeddedResource
	// +kubebuilder:validation:XPreserveUnknownFields
	Embedded2 *runtime.RawExtension `json:"embedded2,omitempty"`
	// +kubebuilder:validation:items:XEmbeddedResource
	// +kubebuilder:validation:items:XPreserveUnknownFields
	EmbeddedList []runtime.RawExtension `json:"embeddedList,omitempty"`
	// +kubebuilder:validation:Schemaless
	// +kubebuilder:pruning:PreserveUnknownFields
	Anything apiextensionsv1.JSON `json:"anything,omitempty"`
	// +kubebuilder:validation:XIntOrString
	// +kubebuilder:validation:Type=""
	Port string `json:"port,omitempty"`
	// +kubebuilder:validation:items:XIntOrString
	// +kubebuilder:validation:items:Type=""
	Ports []string `json:"ports,omitempty"`
	// +kubebuilder:validation:items:MinProperties=1
	// +kubebuilder:validation:items:MaxProperties=2
	Maps []map[string]string `json:"maps,omitempty"`
	// +kubebuilder:validation:items:MinItems=1
	// +kubebuilder:validation:items:MaxItems=2
	// +kubebuilder:validation:items:UniqueItems=false
	Lists          [][]string     `json:"lists,omitempty"`
	MapOfItems     MapOfItems     `json:"mapOfItems,omitempty"`
	ItemList       ItemList       `json:"itemList,omitempty"`
	ListOfMaps     ListOfMaps     `json:"listOfMaps,omitempty"`
	ListOfLists    ListOfLists    `json:"listOfLists,omitempty"`
	ListOfPorts    ListOfPorts    `json:"listOfPorts,omitempty"`
	ListOfEmbedded ListOfEmbedded `json:"listOfEmbedded,omitempty"`
	AnyPort        AnyPort        `json:"anyPort,omitempty"`
	Wild           *Wild          `json:"wild,omitempty"`
	Extension      Extension      `json:"extension,omitempty"`
	OneOf          OneOf          `json:"oneOf,omitempty"`
	// The types of the libraries.
	Libraries  `json:",inline"`
	Libraries2 *Libraries `json:"libraries2,omitempty"`
}

// MapOfItems is a map.
// +kubebuilder:validation:MinProperties=1
// +kubebuilder:validation:MaxProperties=3
// +mapType=granular
type MapOfItems map[string]*Item

// ItemList is a list.
// +listType=map
// +listMapKey=name
type ItemList []*Item

// ListOfMaps is a list.
// +kubebuilder:validation:items:MinProperties=1
// +kubebuilder:validation:items:MaxProperties=2
// +k8s:listType=atomic
type ListOfMaps []map[string]string

// ListOfLists is a list.
// +kubebuilder:validation:items:MinItems=1
// +kubebuilder:validation:items:MaxItems=2
// +kubebuilder:validation:items:UniqueItems=false
type ListOfLists [][]string

// ListOfPorts is a list.
// +kubebuilder:validation:items:XIntOrString
// +kubebuilder:validation:items:Type=""
type ListOfPorts []string

// ListOfEmbedded is a list.
// +kubebuilder:validation:items:XEmbeddedResource
// +kubebuilder:validation:items:XPreserveUnknownFields
type ListOfEmbedded []runtime.RawExtension

// AnyPort is a number or a string.
// +kubebuilder:validation:XIntOrString
// +kubebuilder:validation:Type=""
type AnyPort string

// Wild has fields that are not known.
// +kubebuilder:pruning:PreserveUnknownFields
// +kubebuilder:externalDocs:url="https://example.com/wild"
type Wild struct{}

// Extension is any object.
// +kubebuilder:validation:XEmbeddedResource
// +kubebuilder:validation:XPreserveUnknownFields
type Extension struct {
	Known string `json:"known,omitempty"`
}

// OneOf has fields of which only some may be set.
// +kubebuilder:validation:ExactlyOneOf=a;b
// +kubebuilder:validation:AtMostOneOf=b;c
// +kubebuilder:validation:AtLeastOneOf=a;c
// +kubebuilder:validation:XValidation:rule="!has(self.d) || self.d > 1",fieldPath=".d",message="d"
type OneOf struct {
	A *string `json:"a,omitempty"`
	B *string `json:"b,omitempty"`
	C *string `json:"c,omitempty"`
	D *int64  `json:"d,omitempty"`
}

// Item is an item. Its description is long, to be cut off: it goes on and on, and has several
// sentences. This is the second one. This is the third: with "quotes", 'others' and a colon.
//
//   - a list
//   - in the comment
//
// +structType=granular
type Item struct {
	Name string `json:"name"`
	// +kubebuilder:default=Item
	// +required
	Kind string `json:"kind,omitempty"`
	// +optional
	Value string `json:"value"`
	// +kubebuilder:validation:Optional
	Other string `json:"other"`
	// +kubebuilder:validation:Required
	Needed string `json:"needed,omitempty"`
	Hidden int    `json:"-"`
	Zero   string `json:"zero,omitzero"`
	Next   *Wild  `json:"next,omitempty"`
}

// Libraries are types of Kubernetes' libraries.
type Libraries struct {
	Time       metav1.Time                   `json:"time,omitempty"`
	MicroTime  *metav1.MicroTime             `json:"microTime,omitempty"`
	Duration   metav1.Duration               `json:"duration,omitempty"`
	Quantity   resource.Quantity             `json:"quantity,omitempty"`
	Port       intstr.IntOrString            `json:"intOrString,omitempty"`
	Selector   *metav1.LabelSelector         `json:"selector,omitempty"`
	Conditions []metav1.Condition            `json:"conditions,omitempty" patchStrategy:"merge" patchMergeKey:"type"`
	Reference  corev1.ObjectReference        `json:"reference,omitempty"`
	Env        []corev1.EnvVar               `json:"env,omitempty"`
	Resources  corev1.ResourceRequirements   `json:"resources,omitempty"`
	UID        types.UID                     `json:"uid,omitempty"`
	Bytes      []byte                        `json:"bytes,omitempty"`
	Bool       *bool                         `json:"bool,omitempty"`
	Meta       *EmbeddedMeta                 `json:"embeddedMeta,omitempty"`
	Deep       map[string][]map[string]*Item `json:"-"`
}

// EmbeddedMeta is an object in another.
type EmbeddedMeta struct {
	metav1.ObjectMeta `json:"metadata,omitempty"`
}

// NotCopied has no deep copy.
// +kubebuilder:object:generate=false
type NotCopied struct{ F func() }

// Interface is an interface.
// +kubebuilder:object:generate=false
type Interface interface{ Do() }
