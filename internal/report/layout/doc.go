// Package layout sets text for people: numbers, columns, lines and words. It knows
// nothing of what is told, so that the commands and the reports tell it alike.
package layout
