.PHONY: run test lint bench torture clean
all: test
