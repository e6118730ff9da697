// Package config is what a sandbox is to have: its nodes and what is installed on it.
package config
