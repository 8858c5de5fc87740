// Package flyball is Flyball as a runtime to be measured.
package flyball

const name = "Flyball"
