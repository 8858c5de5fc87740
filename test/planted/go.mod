module flyball.dev/test/planted

go 1.26.0

require (
	flyball.dev v0.0.0
	golang.org/x/tools v0.52.0
)

replace flyball.dev => ../..
