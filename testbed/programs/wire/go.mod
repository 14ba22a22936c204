// The program that carries packets between the places of a test bed; see main.go.
module rehome.invalid/testbed/wire

go 1.25.0

require golang.org/x/sys v0.45.0
