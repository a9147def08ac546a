#pragma once
// For what nghttp2 allocates; Swift's Glibc module leaves it out.
#include <malloc.h>
#include <nghttp2/nghttp2.h>
