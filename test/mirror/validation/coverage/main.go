// Coverage prints how much of Kubernetes's validation of each kind the generated objects reach. The validation of a kind are
// the functions in pkg/apis/*/validation that run for its objects, and the functions that these mention. A kind that is served
// in several groups or versions counts once. unreachable.txt names the functions that no object can reach, with the reasons;
// these functions do not count.
//
//	go run -C test/mirror/validation ./coverage -objects 30000
//
// With -missing it prints the statements that were not reached, too.
//
// TestCoverage fails if a kind reaches less than 80 %.
package main

import (
	"flag"
	"fmt"
	"log"
	"regexp"
)

func main() {
	objects := flag.Int("objects", 30000, "the number of writes of each kind")
	only := flag.String("kind", "", "a regular expression of the names of kinds")
	missing := flag.Bool("missing", false, "print the statements that were not reached")
	flag.Parse()
	log.SetFlags(0)
	src, err := readKubernetes(".")
	if err != nil {
		log.Fatal(err)
	}
	results, err := src.measure(".", regexp.MustCompile(*only), *objects, *objects)
	if err != nil {
		log.Fatal(err)
	}
	for _, r := range results {
		fmt.Println(r)
		for _, at := range r.missing {
			if *missing {
				fmt.Println("\t" + at)
			}
		}
		for _, p := range r.problems() {
			fmt.Println("\t" + p)
		}
	}
}
