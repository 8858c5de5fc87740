package kinds

import (
	"errors"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/conversion"
	"k8s.io/apimachinery/pkg/runtime"
)

// AddConversions adds the conversions between two versions of a kind, A and B, and between their lists to a scheme. itemsOfA and
// itemsOfB return the parts of a list.
func AddConversions[A, B, ListA, ListB any](s *runtime.Scheme, toB func(*A, *B) error, toA func(*B, *A) error,
	itemsOfA func(*ListA) (*metav1.ListMeta, *[]A), itemsOfB func(*ListB) (*metav1.ListMeta, *[]B)) error {
	return errors.Join(addConversion(s, toB), addConversion(s, toA),
		addConversion(s, ofLists(toB, itemsOfA, itemsOfB)), addConversion(s, ofLists(toA, itemsOfB, itemsOfA)))
}

// Infallible returns a conversion that cannot fail in the form that [AddConversions] takes.
func Infallible[In, Out any](convert func(*In, *Out)) func(*In, *Out) error {
	return func(in *In, out *Out) error {
		convert(in, out)
		return nil
	}
}

func addConversion[In, Out any](s *runtime.Scheme, convert func(*In, *Out) error) error {
	return s.AddConversionFunc((*In)(nil), (*Out)(nil), func(in, out any, _ conversion.Scope) error {
		return convert(in.(*In), out.(*Out))
	})
}

// ofLists returns the conversion of a list by the conversion of its items.
func ofLists[In, Out, ListIn, ListOut any](convert func(*In, *Out) error,
	itemsOfIn func(*ListIn) (*metav1.ListMeta, *[]In), itemsOfOut func(*ListOut) (*metav1.ListMeta, *[]Out)) func(*ListIn, *ListOut) error {
	return func(in *ListIn, out *ListOut) error {
		meta, items := itemsOfIn(in)
		outMeta, outItems := itemsOfOut(out)
		*outMeta, *outItems = *meta, make([]Out, len(*items))
		for i := range *items {
			if err := convert(&(*items)[i], &(*outItems)[i]); err != nil {
				return err
			}
		}
		return nil
	}
}
